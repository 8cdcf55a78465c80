"""One group: its members, its generation, and the way from one generation to the next. Pure: instants go in as values.

    EMPTY ──first join──▶ PREPARING ──all have joined, or time is over──▶ COMPLETING ──leader's sync──▶ STABLE
      ▲                     ▲   └── nobody is left ──▶ EMPTY                  │                          │
      └─────────────────────┴──────────── a member comes, goes, changes ─────┴──────────────────────────┘

A member that joins during PREPARING gets its answer when the generation is complete. A member that syncs during COMPLETING gets
its assignment when the leader has sent it. `tick` ends each of these waits at its deadline. Source: KIP-62, KIP-134 (the initial
delay), KIP-345 (static members).
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
    """A group's state, by the names that clients print."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Group:
    """A group's roster and its state. Answers to parked requests are added to `replies`."""

    def __init__(self, group_id: str, limits: GroupLimits, replies: list[Reply]) -> None:
        self.group_id = group_id
        self.roster = Roster()
        self.claim: str | None = None
        """The claim under which its members commit: while it lasts no other broker commits for the group."""
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.wake_ms = NEVER_MS
        """Nothing is due before this instant; something may be due from then on."""
        self._limits = limits
        self._replies = replies
        self._initial_delay_until_ms: int | None = None
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
        """The kind of group ("consumer", "connect"), None without members."""
        return self.roster.protocol_type

    def choice(self) -> str | None:
        """Return the protocol that the members would choose now."""
        return chosen(self.roster.offers())

    # -- members come and go -------------------------------

    def add_pending(self, member_id: str, until_ms: int) -> None:
        """Wait until `until_ms` for a client that was given this id and has not joined yet."""
        self.roster.add_pending(member_id, until_ms)
        self._wake_by(until_ms)

    def forget_pending(self, member_id: str, now_ms: int) -> None:
        """Wait for this id no longer."""
        self.roster.forget_pending(member_id)
        self.after_departures(now_ms)

    def enter(self, member: Member, protocol_type: str, ticket: Ticket, now_ms: int) -> None:
        """Add a member. Its join is answered when the next generation is complete."""
        self.roster.enter(member, protocol_type)
        self._has_grown = True
        self.park_join(member, ticket, now_ms)

    def replace(self, old: Member, new: Member, protocol_type: str) -> None:
        """Replace a static member's old process by its new one, which keeps the assignment. The old one is fenced."""
        self._answer_parked(old, ErrorCode.FENCED_INSTANCE_ID)
        new.assignment = old.assignment
        self.roster.replace(old, new, protocol_type)
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id

    def dismiss(self, member: Member) -> None:
        """Remove a member and refuse its parked requests. `after_departures` decides what follows for the others."""
        # UNKNOWN_MEMBER_ID makes a client that still listens join again under a new id.
        self._answer_parked(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.drop(member)
        self._has_shrunk = True
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def after_departures(self, now_ms: int) -> None:
        """After departures: begin one rebalance for all members that left together, or end the wait for those who left."""
        has_shrunk, self._has_shrunk = self._has_shrunk, False
        if has_shrunk and not self.members:
            self._become_empty()
        elif has_shrunk and self.state is not GroupState.PREPARING:
            self.prepare(now_ms)
        else:
            self._end_joining_if_all_joined(now_ms)

    def renew_session(self, member: Member, now_ms: int) -> None:
        """Restart the member's session timeout. A member with a parked request has none: it waits for us, not we for it."""
        if member.join_ticket is None and member.sync_ticket is None:
            member.silent_at_ms = now_ms + member.session_timeout_ms
            self._wake_by(member.silent_at_ms)

    def cancel(self, ticket: Ticket, now_ms: int) -> None:
        """Forget a parked request: its connection is closed. Its member stays until its session ends. A member that cannot know
        its id is removed now, as it can never come back under it.
        """
        for member in self.members.values():
            if ticket in (member.join_ticket, member.sync_ticket):
                break
        else:
            return
        member.join_ticket = member.sync_ticket = None
        if not member.knows_its_id and member.instance_id is None:
            self.dismiss(member)
            self.after_departures(now_ms)
        else:
            self.renew_session(member, now_ms)

    # -- from generation to generation -----------------------

    def park_join(self, member: Member, ticket: Ticket, now_ms: int) -> None:
        """Put the member into the next generation; its join is answered when that is complete."""
        self._answer_parked(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.join_ticket = ticket
        member.has_joined = True
        member.silent_at_ms = None
        if self.state is GroupState.PREPARING:
            self._end_joining_if_all_joined(now_ms)
        else:
            self.prepare(now_ms)

    def prepare(self, now_ms: int) -> None:
        """Begin a rebalance: refuse parked syncs; every member has to join again."""
        for member in self.members.values():
            member.must_sync = False
            if member.sync_ticket is not None:
                self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
                self.renew_session(member, now_ms)
        self._sync_deadline_ms = NEVER_MS
        was_empty = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING
        longest_ms = max(member.rebalance_timeout_ms for member in self.members.values())
        self._join_deadline_ms = now_ms + longest_ms
        self._wake_by(self._join_deadline_ms)
        self._initial_delay_until_ms = None
        if not was_empty:
            self._end_joining_if_all_joined(now_ms)
        elif self._limits.initial_rebalance_delay_ms > 0:
            self._delay_first_generation(now_ms)
        else:
            # A first generation waits only for the initial delay, here none: a client that only has an id may never join.
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
        """Return the member's assignment, or None when its ticket is kept until the leader has sent it.

        When the leader's assignments need more than `free_bytes`, they are refused and a new rebalance begins.
        """
        if self.state is GroupState.PREPARING:
            return SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS)
        member.must_sync = False
        if self.state is GroupState.STABLE:
            self.renew_session(member, now_ms)
            return self._sync_answer(member)
        if member.sync_ticket is not None:
            self._answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.sync_ticket = ticket
        member.silent_at_ms = None
        if member.member_id == self.leader_id:
            self._take_assignments(dict(request.assignments), now_ms, free_bytes)
        return None

    def tick(self, now_ms: int) -> list[str]:
        """Carry out what is due; return the members that were removed because their sessions or deadlines ended."""
        for member_id in [one for one, until_ms in self.roster.pending_members.items() if until_ms <= now_ms]:
            self.roster.forget_pending(member_id)
        silent = [one for one in self.members.values() if one.silent_at_ms is not None and one.silent_at_ms <= now_ms]
        for member in silent:
            self.dismiss(member)
        self.after_departures(now_ms)
        if self.state is GroupState.PREPARING:
            silent += self._join_time(now_ms)
        if self._sync_deadline_ms <= now_ms:
            self._sync_deadline_ms = NEVER_MS
            overdue = [one for one in self.members.values() if one.must_sync]
            silent += overdue
            for member in overdue:
                self.dismiss(member)
            self.after_departures(now_ms)
        self.wake_ms = self._next_deadline_ms()
        return [member.member_id for member in silent]

    def disband(self, error: ErrorCode) -> None:
        """Answer all parked requests with `error` and forget all members."""
        for member in self.members.values():
            self._answer_parked(member, error)
        self.roster = Roster()
        self._become_empty()

    # -- within ----------------------------------------------

    def _delay_first_generation(self, now_ms: int) -> None:
        self._has_grown = False
        self._initial_delay_until_ms = min(now_ms + self._limits.initial_rebalance_delay_ms, self._join_deadline_ms)
        self._wake_by(self._initial_delay_until_ms)

    def _join_time(self, now_ms: int) -> list[Member]:
        if self._initial_delay_until_ms is not None:
            if now_ms < self._initial_delay_until_ms:
                return []
            if self._has_grown and now_ms < self._join_deadline_ms:
                self._delay_first_generation(now_ms)
                return []
        elif now_ms < self._join_deadline_ms:
            return []
        return self._end_joining(now_ms)

    def _end_joining_if_all_joined(self, now_ms: int) -> None:
        if self.state is not GroupState.PREPARING or self._initial_delay_until_ms is not None or self.roster.pending_members:
            return
        if all(member.has_joined for member in self.members.values()):
            self._end_joining(now_ms)

    def _end_joining(self, now_ms: int) -> list[Member]:
        """Form a generation of the members that have joined. Return those that have not and are removed; static members stay."""
        self._initial_delay_until_ms = None
        late = [one for one in self.members.values() if not one.has_joined and one.instance_id is None]
        for member in late:
            self.dismiss(member)
        self._has_shrunk = False
        joined = [one for one in self.members.values() if one.has_joined]
        if not self.members:
            self._become_empty()
        elif not joined:
            # Only static members are left, all of them away: there is no leader to choose, and their sessions decide.
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
            # Prefer a member that can receive the answer to one whose connection broke.
            leader = next((one for one in joined if one.join_ticket is not None), joined[0])
        self.leader_id = leader.member_id
        for member in joined:
            member.has_joined = False
            member.must_sync = True
            member.knows_its_id = True
            if member.join_ticket is not None:
                self._replies.append((member.join_ticket, self.answer_of_generation(member)))
                member.join_ticket = None
                self.renew_session(member, now_ms)
        self._sync_deadline_ms = now_ms + max(member.rebalance_timeout_ms for member in joined)
        self._wake_by(self._sync_deadline_ms)

    def _take_assignments(self, assignments: dict[str, bytes], now_ms: int, free_bytes: int) -> None:
        new_bytes = sum(len(assignments.get(member_id, b"")) for member_id in self.members)
        old_bytes = sum(len(member.assignment) for member in self.members.values())
        if new_bytes - old_bytes > free_bytes:
            for member in self.members.values():
                if member.sync_ticket is not None:
                    self._answer_sync(member, ErrorCode.UNKNOWN_SERVER_ERROR)
                    self.renew_session(member, now_ms)
            self.prepare(now_ms)
            return
        self.roster.assign(assignments)
        self.state = GroupState.STABLE
        for member in self.members.values():
            if member.sync_ticket is not None:
                self._replies.append((member.sync_ticket, self._sync_answer(member)))
                member.sync_ticket = None
                self.renew_session(member, now_ms)

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment)

    def _become_empty(self) -> None:
        self.state = GroupState.EMPTY
        self.generation += 1
        self.protocol = self.leader_id = self._initial_delay_until_ms = None
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
        pending = min(self.roster.pending_members.values(), default=NEVER_MS)
        delay = NEVER_MS if self._initial_delay_until_ms is None else self._initial_delay_until_ms
        joining = (
            self._join_deadline_ms if self.state is GroupState.PREPARING and self._initial_delay_until_ms is None else NEVER_MS
        )
        return min(silent, pending, delay, joining, self._sync_deadline_ms)
