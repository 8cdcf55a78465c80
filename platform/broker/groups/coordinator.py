"""All groups that this broker coordinates: checks each request, applies the limits, passes it to its group.

Groups live in memory only, as long as they have members. Answers to parked requests are added to `replies`; the caller delivers
them after a call here has returned. Knows nothing of offsets. Pure: no clock, no socket, no ZooKeeper."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...wire.errors import ErrorCode
from .group import NEVER_MS, Group, GroupState
from .joining import NewMemberId, join
from .limits import GroupLimits
from .member import Member
from .messages import JoinAnswer, JoinRequest, Leaver, Reply, SyncAnswer, SyncRequest, Ticket

GROUP_BYTES = 1_000
"""Memory of a group besides its members and its id."""
MOST_OFFERS = 100
"""Protocols that one member may offer; clients offer one to three."""
LONGEST_TEXT = 1_000
"""Characters of a name that other members receive. A name from a newer version's join must fit into an older version's answer."""


class Eviction(NamedTuple):
    """Members that were removed because their sessions ended."""

    group_id: str
    member_ids: list[str]


class Coordinator:
    """The groups by id."""

    def __init__(self, limits: GroupLimits, new_member_id: NewMemberId) -> None:
        self._limits = limits
        self._new_member_id = new_member_id
        self._groups: dict[str, Group] = {}
        self._wake_ms = NEVER_MS
        self.held_bytes = 0
        self.replies: list[Reply] = []
        self._deserted: set[str] = set()

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> Group | None:
        """Return a group that has members or pending ones."""
        return self._groups.get(group_id)

    def all(self) -> Sequence[Group]:
        """Return the present groups. Any thread may call this, to count them."""
        return list(self._groups.values())

    @property
    def member_count(self) -> int:
        """The number of members in all groups. Any thread may read it."""
        return sum(len(group.members) for group in self.all())

    def join(self, request: JoinRequest, ticket: Ticket, now_ms: int) -> JoinAnswer | None:
        """Return the answer, or None when `replies` will have it."""
        error = self._refusal(request)
        if error is not ErrorCode.NONE:
            return JoinAnswer(error=error, member_id=request.member_id)
        group = self._groups.get(request.group_id)
        if group is None:
            group = self._groups[request.group_id] = Group(request.group_id, self._limits, self.replies)
            self.held_bytes += GROUP_BYTES + len(request.group_id)
        before = group.roster.held_bytes
        answer = join(group, request, ticket, now_ms, limits=self._limits, new_member_id=self._new_member_id)
        self._touched(group, before)
        return answer

    def sync(self, request: SyncRequest, ticket: Ticket, now_ms: int) -> SyncAnswer | None:
        """Return the assignment or a refusal, or None when `replies` will have the answer."""
        found = self._member(request.group_id, request.member_id, request.instance_id, request.generation)
        if isinstance(found, ErrorCode):
            return SyncAnswer(error=found)
        group, member = found
        for said, known in ((request.protocol_type, group.protocol_type), (request.protocol, group.protocol)):
            if said is not None and said != known and group.state is not GroupState.PREPARING:
                return SyncAnswer(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        before = group.roster.held_bytes
        answer = group.sync(member, request, ticket, now_ms, free_bytes=self._limits.bytes - self.held_bytes)
        self._touched(group, before)
        return answer

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> ErrorCode:
        """Return whether the member has to join again. Renews its session."""
        found = self._member(group_id, member_id, instance_id, generation)
        if isinstance(found, ErrorCode):
            return found
        group, member = found
        group.renew_session(member, now_ms)
        self._wake_ms = min(self._wake_ms, group.wake_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def leave(self, group_id: str, leavers: Sequence[Leaver], now_ms: int) -> list[ErrorCode]:
        """Remove members together; return the outcome of each. An instance id alone names a static member too (administrators do
        this)."""
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        before = group.roster.held_bytes
        errors = [self._dismiss(group, *leaver) for leaver in leavers]
        group.after_departures(now_ms)
        self._touched(group, before)
        return errors

    def may_commit(self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> ErrorCode:
        """Return whether this client may commit offsets for the group: a member of the present generation may, and a client
        without a generation while the group has no members.
        """
        group = self._groups.get(group_id)
        if generation < 0 and (group is None or not group.members):
            return ErrorCode.NONE
        found = self._member(group_id, member_id, instance_id, generation)
        if isinstance(found, ErrorCode):
            return found
        group, member = found
        if group.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        # While the next generation is prepared a member may still commit what it has read: its heartbeat's answer makes it join.
        group.renew_session(member, now_ms)
        self._wake_ms = min(self._wake_ms, group.wake_ms)
        return ErrorCode.NONE

    def cancel(self, group_id: str, ticket: Ticket, now_ms: int) -> None:
        """Forget a parked request: its connection is closed."""
        group = self._groups.get(group_id)
        if group is not None:
            before = group.roster.held_bytes
            group.cancel(ticket, now_ms)
            self._touched(group, before)

    def tick(self, now_ms: int) -> list[Eviction]:
        """Carry out what is due; return the members whose sessions ended."""
        evictions: list[Eviction] = []
        if now_ms < self._wake_ms:
            return evictions
        for group in [one for one in self._groups.values() if one.wake_ms <= now_ms]:
            before = group.roster.held_bytes
            silent = group.tick(now_ms)
            if silent:
                evictions.append(Eviction(group.group_id, silent))
            self._touched(group, before)
        self._wake_ms = min((group.wake_ms for group in self._groups.values()), default=NEVER_MS)
        return evictions

    def take_deserted(self) -> frozenset[str]:
        """Return the groups that lost their last member since the last call, bounded in number."""
        taken, self._deserted = frozenset(self._deserted - self._groups.keys()), set()
        return taken

    def hand_over(self, is_ours: Callable[[str], bool]) -> list[str]:
        """Return the ids of the groups that another broker coordinates now. They are forgotten, parked requests refused."""
        gone = [group for group_id, group in self._groups.items() if not is_ours(group_id)]
        for group in gone:
            before = group.roster.held_bytes
            group.disband(ErrorCode.NOT_COORDINATOR)
            self._touched(group, before)
        return [group.group_id for group in gone]

    def _refusal(self, request: JoinRequest) -> ErrorCode:
        limits = self._limits
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not request.protocol_type or not 0 < len(request.offers) <= MOST_OFFERS:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if any(len(text) > LONGEST_TEXT for text in _short_texts(request)):
            return ErrorCode.INVALID_REQUEST
        if request.group_id not in self._groups:
            if request.member_id:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if len(self._groups) >= limits.groups:
                return ErrorCode.GROUP_MAX_SIZE_REACHED
        if self.held_bytes + request.size_bytes > limits.bytes:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _dismiss(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        if member_id in group.roster.pending_members:
            group.roster.forget_pending(member_id)
            return ErrorCode.NONE
        if instance_id is not None and not member_id:
            member_id = group.roster.instances.get(instance_id, "")
        found = group.roster.find(member_id, instance_id)
        if isinstance(found, ErrorCode):
            return found
        group.dismiss(found)
        return ErrorCode.NONE

    def _member(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[Group, Member] | ErrorCode:
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member = group.roster.find(member_id, instance_id)
        if isinstance(member, ErrorCode):
            return member
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return group, member

    def _touched(self, group: Group, held_before: int) -> None:
        self.held_bytes += group.roster.held_bytes - held_before
        if group.roster.is_deserted:
            del self._groups[group.group_id]
            if group.generation and len(self._deserted) < self._limits.groups:
                self._deserted.add(group.group_id)
            self.held_bytes -= GROUP_BYTES + len(group.group_id)
        else:
            self._wake_ms = min(self._wake_ms, group.wake_ms)


def _short_texts(request: JoinRequest) -> Iterator[str]:
    yield request.protocol_type
    yield request.instance_id or ""
    for offer in request.offers:
        yield offer.name
