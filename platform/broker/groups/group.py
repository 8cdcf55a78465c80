"""One group: its members, its generation, and the way from one generation to the next. Pure: instants go in as values.

    EMPTY ──first join──▶ PREPARING ──all have joined, or time is over──▶ COMPLETING ──leader's sync──▶ STABLE
      ▲                     ▲   └── nobody is left ──▶ EMPTY                  │                          │
      └─────────────────────┴──────────── a member comes, goes, changes ─────┴──────────────────────────┘

Who asks to join in PREPARING is answered when the generation stands, once; who asks for its share in COMPLETING, when the leader
has brought it. Each of these waits has an end: `tick`. Source: KIP-62, KIP-134 (the initial delay), KIP-345 (static members).
"""

from collections.abc import Mapping
from enum import StrEnum

from ...wire.errors import ErrorCode
from .limits import GroupLimits
from .member import Member
from .messages import JoinAnswer, Reply, SyncAnswer, SyncRequest, Ticket
from .roster import Roster
from .vote import chosen

NEVER_MS = 1 << 62


class GroupState(StrEnum):
    """Where a group stands, by the names that clients print."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Group:
    """A group's roster and where it stands. Answers to parked requests are added to `replies`."""

    def __init__(self, group_id: str, limits: GroupLimits, replies: list[Reply]) -> None:
        self.group_id = group_id
        self.roster = Roster()
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.wake_ms = NEVER_MS
        """Nothing is due before this; something may be due from then on."""
        self._limits = limits
        self._replies = replies
        self._gather_until_ms: int | None = None
        self._has_grown = False
        self._has_shrunk = False
        self._join_deadline_ms = NEVER_MS
        self._sync_deadline_ms = NEVER_MS

    @property
    def members(self) -> Mapping[str, Member]:
        """The members by id."""
        return self.roster.members

    @property
    def protocol_type(self) -> str | None:
        """What kind of group it is ("consumer", "connect"), None without members."""
        return self.roster.protocol_type

    def choice(self) -> str | None:
        """Return the protocol that the members would choose now."""
        return chosen(self.roster.offers())

    # -- members come and go -------------------------------

    def expect(self, member_id: str, until_ms: int) -> None:
        """Note an id that was given to a newcomer."""
        self.roster.expect(member_id, until_ms)
        self._wake_by(until_ms)

    def forget_newcomer(self, member_id: str, now_ms: int) -> None:
        """Wait for it no longer."""
        self.roster.unexpect(member_id)
        self.go_on(now_ms)

    def enter(self, member: Member, protocol_type: str, ticket: Ticket, now_ms: int) -> None:
        """Take in a member; its join is answered when the next generation stands."""
        self.roster.enter(member, protocol_type)
        self._has_grown = True
        self.park_join(member, ticket, now_ms)

    def replace(self, old: Member, new: Member, protocol_type: str) -> None:
        """Have a static member's new life stand where its old one stood, with its share; the old one is fenced."""
        self._answer_parked(old, ErrorCode.FENCED_INSTANCE_ID)
        new.assignment = old.assignment
        self.roster.replace(old, new, protocol_type)
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id

    def dismiss(self, member: Member) -> None:
        """Let a member go: what it waits for is answered. What comes of it for the others is for `go_on`."""
        # A client that still listens shall come again as a newcomer.
        self._answer_parked(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.drop(member)
        self._has_shrunk = True
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def go_on(self, now_ms: int) -> None:
        """After some have gone: the others begin again, once for all that went together, or wait for them no longer."""
        has_shrunk, self._has_shrunk = self._has_shrunk, False
        if has_shrunk and not self.members:
            self._become_empty()
        elif has_shrunk and self.state is not GroupState.PREPARING:
            self.prepare(now_ms)
        else:
            self._go_on_when_all_joined(now_ms)

    def heard_of(self, member: Member, now_ms: int) -> None:
        """Its session goes on from now, unless an answer is owed to it: then it cannot be silent."""
        if member.join_ticket is None and member.sync_ticket is None:
            member.silent_at_ms = now_ms + member.session_timeout_ms
            self._wake_by(member.silent_at_ms)

    def cancel(self, ticket: Ticket, now_ms: int) -> None:
        """Nobody hears the answer to this ticket any more. Its member stays until its session ends; one that cannot know its id
        goes now, as it can never come back under it.
        """
        for member in self.members.values():
            if ticket in (member.join_ticket, member.sync_ticket):
                break
        else:
            return
        member.join_ticket = member.sync_ticket = None
        if not member.is_id_told and member.instance_id is None:
            self.dismiss(member)
            self.go_on(now_ms)
        else:
            self.heard_of(member, now_ms)

    # -- from generation to generation -----------------------

    def park_join(self, member: Member, ticket: Ticket, now_ms: int) -> None:
        """Have the member in the next generation and its join answered then."""
        self._answer_parked(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.join_ticket = ticket
        member.has_joined = True
        member.silent_at_ms = None
        if self.state is GroupState.PREPARING:
            self._go_on_when_all_joined(now_ms)
        else:
            self.prepare(now_ms)

    def prepare(self, now_ms: int) -> None:
        """Begin a rebalance: whoever waits for its share is told, everybody is to join again."""
        for member in self.members.values():
            member.must_sync = False
            if member.sync_ticket is not None:
                self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
                self.heard_of(member, now_ms)
        self._sync_deadline_ms = NEVER_MS
        was_empty = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING
        longest_ms = max(member.rebalance_timeout_ms for member in self.members.values())
        self._join_deadline_ms = now_ms + longest_ms
        self._wake_by(self._join_deadline_ms)
        self._gather_until_ms = None
        if not was_empty:
            self._go_on_when_all_joined(now_ms)
        elif self._limits.initial_rebalance_delay_ms > 0:
            self._gather(now_ms)
        else:
            # A first generation waits for nobody but as long as the delay says: whoever only has an id may never come.
            self._end_joining(now_ms)

    def answer_of_generation(self, member: Member) -> JoinAnswer:
        """Return the answer to a join of the present generation."""
        everybody = [one.as_joined(self.protocol) for one in self.members.values()] if member.member_id == self.leader_id else []
        return JoinAnswer(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader_id=self.leader_id or "",
            member_id=member.member_id,
            members=everybody,
        )

    def sync(self, member: Member, request: SyncRequest, ticket: Ticket, now_ms: int, *, free_bytes: int) -> SyncAnswer | None:
        """Return the member's share, or None when its ticket is kept until the leader has brought it.

        The leader's shares beyond `free_bytes` are refused, and the generation with them.
        """
        if self.state is GroupState.PREPARING:
            return SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS)
        member.must_sync = False
        if self.state is GroupState.STABLE:
            self.heard_of(member, now_ms)
            return self._share(member)
        if member.sync_ticket is not None:
            self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.sync_ticket = ticket
        member.silent_at_ms = None
        if member.member_id == self.leader_id:
            self._take_shares(dict(request.shares), now_ms, free_bytes)
        return None

    def tick(self, now_ms: int) -> list[str]:
        """Carry out what is due; return the members that were removed because nothing was heard of them."""
        for newcomer in [one for one, until_ms in self.roster.pending_members.items() if until_ms <= now_ms]:
            self.roster.unexpect(newcomer)
        silent = [one for one in self.members.values() if one.silent_at_ms is not None and one.silent_at_ms <= now_ms]
        for member in silent:
            self.dismiss(member)
        self.go_on(now_ms)
        if self.state is GroupState.PREPARING:
            silent += self._join_time(now_ms)
        if self._sync_deadline_ms <= now_ms:
            self._sync_deadline_ms = NEVER_MS
            overdue = [one for one in self.members.values() if one.must_sync]
            silent += overdue
            for member in overdue:
                self.dismiss(member)
            self.go_on(now_ms)
        self.wake_ms = self._next_deadline_ms()
        return [member.member_id for member in silent]

    def disband(self, error: ErrorCode) -> None:
        """Answer everything that is parked with `error` and forget all members."""
        for member in self.members.values():
            self._answer_parked(member, error)
        self.roster = Roster()
        self._become_empty()

    # -- within ----------------------------------------------

    def _gather(self, now_ms: int) -> None:
        self._has_grown = False
        self._gather_until_ms = min(now_ms + self._limits.initial_rebalance_delay_ms, self._join_deadline_ms)
        self._wake_by(self._gather_until_ms)

    def _join_time(self, now_ms: int) -> list[Member]:
        if self._gather_until_ms is not None:
            if now_ms < self._gather_until_ms:
                return []
            if self._has_grown and now_ms < self._join_deadline_ms:
                self._gather(now_ms)
                return []
        elif now_ms < self._join_deadline_ms:
            return []
        return self._end_joining(now_ms)

    def _go_on_when_all_joined(self, now_ms: int) -> None:
        if self.state is not GroupState.PREPARING or self._gather_until_ms is not None or self.roster.pending_members:
            return
        if all(member.has_joined for member in self.members.values()):
            self._end_joining(now_ms)

    def _end_joining(self, now_ms: int) -> list[Member]:
        """Make a generation of those who have joined; return those who have not, and are out. Static members stay in any case."""
        self._gather_until_ms = None
        late = [one for one in self.members.values() if not one.has_joined and one.instance_id is None]
        for member in late:
            self.dismiss(member)
        self._has_shrunk = False
        joined = [one for one in self.members.values() if one.has_joined]
        if not self.members:
            self._become_empty()
        elif not joined:
            # Static members alone, each of them away: their sessions decide, there is nobody to lead.
            self._join_deadline_ms = now_ms + max(one.rebalance_timeout_ms for one in self.members.values())
            self._wake_by(self._join_deadline_ms)
        else:
            self._new_generation(joined, now_ms)
        return late

    def _new_generation(self, joined: list[Member], now_ms: int) -> None:
        self.generation += 1
        self.protocol = self.choice()
        self.state = GroupState.COMPLETING
        self._join_deadline_ms = NEVER_MS
        leader = self.members.get(self.leader_id or "")
        if leader is None or not leader.has_joined or leader.join_ticket is None:
            # One who hears the answer goes before one whose connection broke.
            leader = next((one for one in joined if one.join_ticket is not None), joined[0])
        self.leader_id = leader.member_id
        for member in joined:
            member.has_joined = False
            member.must_sync = True
            member.is_id_told = True
            if member.join_ticket is not None:
                self._replies.append((member.join_ticket, self.answer_of_generation(member)))
                member.join_ticket = None
                self.heard_of(member, now_ms)
        self._sync_deadline_ms = now_ms + max(member.rebalance_timeout_ms for member in joined)
        self._wake_by(self._sync_deadline_ms)

    def _take_shares(self, shares: dict[str, bytes], now_ms: int, free_bytes: int) -> None:
        wanted = sum(len(shares.get(member_id, b"")) for member_id in self.members)
        had = sum(len(member.assignment) for member in self.members.values())
        if wanted - had > free_bytes:
            for member in self.members.values():
                if member.sync_ticket is not None:
                    self._answer_sync(member, ErrorCode.UNKNOWN_SERVER_ERROR)
                    self.heard_of(member, now_ms)
            self.prepare(now_ms)
            return
        self.roster.assign(shares)
        self.state = GroupState.STABLE
        for member in self.members.values():
            if member.sync_ticket is not None:
                self._replies.append((member.sync_ticket, self._share(member)))
                member.sync_ticket = None
                self.heard_of(member, now_ms)

    def _share(self, member: Member) -> SyncAnswer:
        return SyncAnswer(protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment)

    def _become_empty(self) -> None:
        self.state = GroupState.EMPTY
        self.generation += 1
        self.protocol = self.leader_id = self._gather_until_ms = None
        self.roster.protocol_type = None
        self._join_deadline_ms = self._sync_deadline_ms = NEVER_MS

    def _answer_parked(self, member: Member, error: ErrorCode) -> None:
        if member.join_ticket is not None:
            self._replies.append((member.join_ticket, JoinAnswer(error=error, member_id=member.member_id)))
            member.join_ticket = None
        if member.sync_ticket is not None:
            self._answer_sync(member, error)

    def _answer_sync(self, member: Member, error: ErrorCode) -> None:
        if member.sync_ticket is not None:
            self._replies.append((member.sync_ticket, SyncAnswer(error=error)))
            member.sync_ticket = None

    def _wake_by(self, at_ms: int) -> None:
        self.wake_ms = min(self.wake_ms, at_ms)

    def _next_deadline_ms(self) -> int:
        silent = min((one.silent_at_ms for one in self.members.values() if one.silent_at_ms is not None), default=NEVER_MS)
        newcomer = min(self.roster.pending_members.values(), default=NEVER_MS)
        gather = NEVER_MS if self._gather_until_ms is None else self._gather_until_ms
        joining = self._join_deadline_ms if self.state is GroupState.PREPARING and self._gather_until_ms is None else NEVER_MS
        return min(silent, newcomer, gather, joining, self._sync_deadline_ms)
