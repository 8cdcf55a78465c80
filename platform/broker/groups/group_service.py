"""The group protocol on the loop thread: passes requests, time and lost connections to the coordinator, and its answers back.

Decides nothing: `groups.coordinator` does. A join or a sync that has to wait is a `DeferredResponse`. While this broker has
groups, a tick every `TICK_MS` carries out what is due. Groups are kept in memory only: a restart loses them, and clients join
again."""

import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ...wire.errors import ErrorCode
from ..event_loop.deferred_response import Chunks, DeferredResponse
from ..event_loop.loop import Loop
from ..settings.broker_settings import BrokerSettings
from .coordinator import Coordinator
from .coordinator_selection import coordinator_of
from .group import Group
from .limits import GroupLimits
from .messages import JoinAnswer, JoinRequest, Leaver, SyncAnswer, SyncRequest
from .readers import GroupReaders

log = get_logger(__name__)

TICK_MS = 50
LONGEST_NAME_IN_ID = 100
MEMBERS_NAMED = 5
"""How many members one line of the log names."""

A = TypeVar("A", JoinAnswer, SyncAnswer)

ClaimGroup = Callable[[str, Callable[[str | None], None], Callable[[Exception], None]], bool]
"""Claims a group in ZooKeeper, unless it has consumers of the paper's kind. Then it calls the first function with the claim or
None, or the second with the error. Returns False when too much waits already."""


class GroupService:
    """Serves the handlers of the group APIs. `broker_ids` returns the presently known brokers of the cluster."""

    def __init__(
        self,
        loop: Loop,
        settings: BrokerSettings,
        broker_ids: Callable[[], Collection[int]],
        claim_group: ClaimGroup,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._loop = loop
        self._claim_group = claim_group
        self._coordinator = Coordinator(limits_of(settings), lambda name: member_id(name, new_id()))
        self._broker_id = settings.broker_id
        self._broker_ids = broker_ids
        self._brokers_seen: frozenset[int] = frozenset()
        self._notices = RateLimitedLog(log, lambda: loop.now_ms)
        self._is_ticking = False
        self._is_delivering = False

    def __len__(self) -> int:
        """Return how many groups have members here."""
        return len(self._coordinator)

    @property
    def member_count(self) -> int:
        return self._coordinator.member_count

    def coordinator_id(self, group_id: str) -> int:
        """Return which broker coordinates the group."""
        return coordinator_of(group_id, {self._broker_id, *self._broker_ids()})

    def is_ours(self, group_id: str) -> bool:
        return self.coordinator_id(group_id) == self._broker_id

    def get(self, group_id: str) -> Group | None:
        """Return a group that has members or pending ones, for reading."""
        return self._coordinator.get(group_id)

    def all(self) -> Collection[Group]:
        return self._coordinator.all()

    def readers(self, group_id: str, *, had_members: bool) -> GroupReaders:
        """Return the present readers of a group, which this broker may not have."""
        return GroupReaders.of(self._coordinator.get(group_id), had_members=had_members)

    def take_deserted(self) -> frozenset[str]:
        """Return the groups that lost all their members since the last call."""
        return self._coordinator.take_deserted()

    def join(self, request: JoinRequest, encode: Callable[[JoinAnswer], bytes]) -> bytes | DeferredResponse:
        """Return the encoded answer, or a DeferredResponse for it.

        A group's first join waits until ZooKeeper has this broker's claim of the group, and has answered that the group has no
        consumers of the paper's kind: both kinds would read and commit the same partitions.
        """
        gone = JoinAnswer(error=ErrorCode.NOT_COORDINATOR, member_id=request.member_id)
        parked = _Parked(self, request.group_id, encode, gone)
        if request.member_id or self._coordinator.get(request.group_id) is not None:
            return self._answered(self._coordinator.join(request, parked.answer, self._loop.now_ms), parked)

        def refuse(error: ErrorCode) -> None:
            parked.answer(JoinAnswer(error=error, member_id=request.member_id))

        def claimed(claim: str | None) -> None:
            if claim is None:
                self._notices.warning("group_has_paper_members", group=request.group_id, refused=request.client_id)
                refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            elif not parked.deferred.ended:
                answer = self._coordinator.join(request, parked.answer, self._loop.now_ms)
                if (group := self._coordinator.get(request.group_id)) is not None:
                    group.claim = claim
                if answer is not None:
                    parked.answer(answer)
                self._resume()

        def failed(error: Exception) -> None:
            refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        if not self._claim_group(request.group_id, claimed, failed):
            return encode(JoinAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=request.member_id))
        return parked.deferred

    def sync(self, request: SyncRequest, encode: Callable[[SyncAnswer], bytes]) -> bytes | DeferredResponse:
        """Return the encoded answer, or a DeferredResponse for it."""
        parked = _Parked(self, request.group_id, encode, SyncAnswer(error=ErrorCode.NOT_COORDINATOR))
        return self._answered(self._coordinator.sync(request, parked.answer, self._loop.now_ms), parked)

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return the heartbeat's answer. Renews the member's session."""
        return self._coordinator.heartbeat(group_id, generation, member_id, instance_id, self._loop.now_ms)

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode]:
        """Remove members; return the outcome of each."""
        errors = self._coordinator.leave(group_id, leavers, self._loop.now_ms)
        self._deliver()
        return errors

    def claim_of(self, group_id: str) -> str | None:
        """Return the claim under which the group's offsets are committed now, None where it has no members here."""
        group = self._coordinator.get(group_id)
        return None if group is None else group.claim

    def claim_lost(self, group_id: str, claim: str | None) -> None:
        """Another broker has claimed the group: forget it, so that its members look for their coordinator."""
        if claim is not None and claim == self.claim_of(group_id):
            self._notices.warning("group_claimed_by_another_broker", group=group_id)
            self._coordinator.hand_over(lambda other: other != group_id)
            self._deliver()

    def may_commit(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return whether this client may commit offsets for the group now."""
        return self._coordinator.may_commit(group_id, generation, member_id, instance_id, self._loop.now_ms)

    def cancelled(self, group_id: str, ticket: Callable[[A], None]) -> None:
        """Forget a parked request: its connection is closed."""
        self._coordinator.cancel(group_id, ticket, self._loop.now_ms)
        self._deliver()

    def _answered(self, answer: A | None, parked: "_Parked[A]") -> bytes | DeferredResponse:
        self._resume()
        return parked.deferred if answer is None else parked.encode(answer)

    def _resume(self) -> None:
        if len(self._coordinator) and not self._is_ticking:
            self._is_ticking = True
            self._loop.call_at(self._loop.now_ms + TICK_MS, self._tick)
        self._deliver()

    def _tick(self) -> None:
        self._hand_over()
        for group_id, member_ids in self._coordinator.tick(self._loop.now_ms):
            # Clients decide how many groups and members there are. Neither the lines nor their length may grow with that.
            named = member_ids[:MEMBERS_NAMED]
            self._notices.warning("group_members_silent", group=group_id, count=len(member_ids), members=named)
        self._deliver()
        self._is_ticking = len(self._coordinator) > 0
        if self._is_ticking:
            self._loop.call_at(self._loop.now_ms + TICK_MS, self._tick)

    def _hand_over(self) -> None:
        brokers = frozenset(self._broker_ids())
        if brokers != self._brokers_seen:
            self._brokers_seen = brokers
            for group_id in self._coordinator.hand_over(self.is_ours):
                self._notices.warning("group_handed_over", group=group_id, to_broker=self.coordinator_id(group_id))

    def _deliver(self) -> None:
        # An answer may make this call run the client's next request, which adds answers: they must come after those before them.
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while replies := self._coordinator.replies:
                ticket, answer = replies.pop(0)
                ticket(answer)
        finally:
            self._is_delivering = False


class _Parked(Generic[A]):
    """A request that may have to wait, and where its answer goes."""

    def __init__(self, service: GroupService, group_id: str, encode: Callable[[A], bytes], gone: A) -> None:
        self.encode: Callable[[A], bytes] = encode
        self.deferred = DeferredResponse(at_deadline=self._finish_now, cancelled=self._cancelled)
        self._service = service
        self._group_id = group_id
        self._gone: A = gone

    def answer(self, answer: A) -> None:
        """The coordinator's ticket."""
        self.deferred.complete((self.encode(answer),))

    def _finish_now(self) -> Chunks:
        # The broker stops, or the peer sends no more: NOT_COORDINATOR makes the client look for its coordinator again.
        self._cancelled()
        return (self.encode(self._gone),)

    def _cancelled(self) -> None:
        self._service.cancelled(self._group_id, self.answer)


def limits_of(settings: BrokerSettings) -> GroupLimits:
    """Return the limits in a broker's settings."""
    return GroupLimits(
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        members_per_group=settings.group_max_size,
        groups=settings.groups_max,
        bytes=settings.groups_max_bytes,
    )


def member_id(name: str, unique: str) -> str:
    """Return a member id that begins with the client's name; `unique`: hexadecimal digits."""
    return f"{name[:LONGEST_NAME_IN_ID]}-{uuid.UUID(unique)}"
