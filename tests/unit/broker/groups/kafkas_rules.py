"""A second implementation of Kafka's rules of one classic group, written to be read: the answer to each call, and when each
parked call is answered. It was checked answer by answer against Apache Kafka 4.3.1 when it was written.

Where Kafka leaves a choice (the leader, the protocol in a tie) the model gets the choice from `choice` and checks that it is
allowed. Comments with `ours` mark where we differ on purpose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[Any, ...]
"""An error's name first, then the answer's values."""
PARKED: Answer = ("parked",)


@dataclass(eq=False)
class Member:
    """One member: what it sent, and what it waits for."""

    name: str
    instance: str | None
    session_ms: int
    rebalance_ms: int
    offers: list[str]
    knows_its_name: bool
    silent_at: int | None = None
    has_joined: bool = False
    owes_sync: bool = False
    join: object = None
    sync: object = None
    assignment: bytes = b""


@dataclass
class KafkasGroup:
    """The group. `sent` collects (call, answer) of parked calls; `choice(generation)` returns (leader, protocol)."""

    delay_ms: int
    most_members: int
    sessions_ms: range
    choice: Callable[[int], tuple[str, str]]
    now: int = 0
    state: str = "Empty"
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    expected: dict[str, int] = field(default_factory=dict)
    sent: list[tuple[object, Answer]] = field(default_factory=list)
    gather_until: int | None = None
    has_grown: bool = False
    join_by: int | None = None
    sync_by: int | None = None

    # -- calls ----------------------------------------------

    def joins(
        self,
        call: object,
        name: str,
        instance: str | None,
        offers: list[str],
        *,
        session_ms: int,
        rebalance_ms: int,
        needs_name: bool,
        new_name: str,
        stays_in_a_tie: bool,
    ) -> Answer:
        """JoinGroup; `new_name` is what a newcomer is called if it is given a name, `stays_in_a_tie` what was chosen when a
        static member's new life has made another protocol as well liked as the present one.
        """
        fresh = Member(new_name, instance, session_ms, rebalance_ms, offers, knows_its_name=False)
        holder = self._holder(instance)
        if session_ms not in self.sessions_ms:
            return ("INVALID_SESSION_TIMEOUT",)
        if name and not self.members and not self.expected:
            return ("UNKNOWN_MEMBER_ID",)
        is_known = name in self.members or name in self.expected or holder is not None
        if not is_known and len(self.members) + len(self.expected) >= self.most_members:
            return ("GROUP_MAX_SIZE_REACHED",)  # ours: Kafka accepts more members while it prepares, and refuses some afterwards
        if not name and holder is not None:
            return self._comes_back(call, holder, fresh, stays_in_a_tie)
        if not name or name in self.expected:
            if name and holder is not None:
                return ("FENCED_INSTANCE_ID",)
            if not self._agrees(offers, None):
                self.expected.pop(name, None)  # ours: the group does not wait for a client that cannot join
                self._settle()
                return ("INCONSISTENT_GROUP_PROTOCOL",)
            if not name and needs_name and instance is None:
                self.expected[new_name] = self.now + session_ms
                return ("MEMBER_ID_REQUIRED", new_name)
            self.expected.pop(name, None)
            fresh.name, fresh.knows_its_name = name or new_name, bool(name)
            self.members[fresh.name] = fresh
            self.has_grown = True
            return self._waits_to_join(call, fresh)
        error = self._refusal(name, instance)
        if error:
            return (error,)
        member = self.members[name]
        if not self._agrees(offers, member):  # ours: a single member may change to any protocol
            return ("INCONSISTENT_GROUP_PROTOCOL",)
        member.knows_its_name = True
        is_same = offers == member.offers
        if is_same and (self.state == "CompletingRebalance" or (self.state == "Stable" and name != self.leader)):
            self._hears_of(member)
            return self._generation_for(member)
        member.offers, member.session_ms, member.rebalance_ms = offers, session_ms, rebalance_ms
        return self._waits_to_join(call, member)

    def syncs(self, call: object, name: str, instance: str | None, generation: int, assignments: dict[str, bytes]) -> Answer:
        """SyncGroup."""
        error = self._refusal(name, instance) or self._outdated(generation)
        if error:
            return (error,)
        if self.state == "PreparingRebalance":
            return ("REBALANCE_IN_PROGRESS",)
        member = self.members[name]
        member.owes_sync = False
        if self.state == "Stable":
            self._hears_of(member)
            return ("NONE", member.assignment)
        self._send(member.sync, "REBALANCE_IN_PROGRESS")
        member.sync, member.silent_at = call, None
        if name == self.leader:
            self.state = "Stable"
            for one in self.members.values():
                one.assignment = assignments.get(one.name, b"")
            for one in [one for one in self.members.values() if one.sync is not None]:
                self._send(one.sync, "NONE", one.assignment)
                one.sync = None
                self._hears_of(one)
        return PARKED

    def beats(self, name: str, instance: str | None, generation: int) -> Answer:
        """Heartbeat."""
        error = self._refusal(name, instance) or self._outdated(generation)
        if error:
            return (error,)
        self._hears_of(self.members[name])
        return ("REBALANCE_IN_PROGRESS" if self.state == "PreparingRebalance" else "NONE",)

    def commits(self, name: str, instance: str | None, generation: int) -> Answer:
        """OffsetCommit. Ours: to a group that is not there Kafka answers ILLEGAL_GENERATION, and the client asks again."""
        if generation < 0 and not self.members:
            return ("NONE",)
        error = self._refusal(name, instance) or self._outdated(generation)
        if error:
            return (error,)
        if self.state == "CompletingRebalance":
            return ("REBALANCE_IN_PROGRESS",)
        self._hears_of(self.members[name])
        return ("NONE",)

    def leave(self, leavers: Sequence[tuple[str, str | None]]) -> list[str]:
        """LeaveGroup: all leaving members are removed before the others continue."""
        errors, gone = [], []
        for name, instance in leavers:
            by_instance = self._holder(instance) if not name else None
            if name in self.expected:
                del self.expected[name]
                errors.append("NONE")
            elif by_instance is not None:
                gone.append(self._goes(by_instance))
                errors.append("NONE")
            else:
                errors.append(self._refusal(name, instance) or "NONE")
                if errors[-1] == "NONE":
                    gone.append(self._goes(self.members[name]))
        self._settle(is_smaller=bool(gone))
        return errors

    def loses(self, call: object) -> None:
        """The connection of a parked call broke."""
        for member in self.members.values():
            if call in (member.join, member.sync):
                member.join = member.sync = None
                if member.knows_its_name or member.instance is not None:
                    self._hears_of(member)
                else:
                    self._settle(is_smaller=bool(self._goes(member)))
                return

    def time_is(self, now: int) -> list[str]:
        """Carry out what is due; return the removed members."""
        self.now = now
        self.expected = {name: until for name, until in self.expected.items() if until > now}
        out = [one for one in self.members.values() if one.silent_at is not None and one.silent_at <= now]
        for member in out:
            self._goes(member)
        self._settle(is_smaller=bool(out))
        if self.state == "PreparingRebalance" and self.join_by is not None:
            if self.gather_until is not None:
                if now >= self.gather_until and self.has_grown and now < self.join_by:
                    self._gathers()
                elif now >= self.gather_until:
                    out += self._begins_generation()
            elif now >= self.join_by:
                out += self._begins_generation()
        if self.state in ("CompletingRebalance", "Stable") and self.sync_by is not None and now >= self.sync_by:
            self.sync_by = None
            late = [one for one in self.members.values() if one.owes_sync]
            for member in late:
                self._goes(member)
            self._settle(is_smaller=bool(late))
            out += late
        return [one.name for one in out]

    # -- between generations ---------------------------------

    def _comes_back(self, call: object, old: Member, new: Member, stays_in_a_tie: bool) -> Answer:
        if not self._agrees(new.offers, old):
            return ("INCONSISTENT_GROUP_PROTOCOL",)
        self._send(old.join, "FENCED_INSTANCE_ID")
        self._send(old.sync, "FENCED_INSTANCE_ID")
        told_leader = self.leader
        if self.leader == old.name:
            self.leader = new.name
        new.assignment = old.assignment
        self.members = {one.name: one for one in (new if one is old else one for one in self.members.values())}
        winners = self._winners()
        if self.state != "Stable" or self.protocol not in winners or (len(winners) > 1 and not stays_in_a_tie):
            return self._waits_to_join(call, new)
        new.knows_its_name = True
        self._hears_of(new)
        return ("NONE", self.generation, self.protocol, told_leader, new.name, ())

    def _waits_to_join(self, call: object, member: Member) -> Answer:
        self._send(member.join, "REBALANCE_IN_PROGRESS")
        self._send(member.sync, "REBALANCE_IN_PROGRESS")
        member.join, member.sync, member.silent_at, member.has_joined = call, None, None, True
        self._settle(is_smaller=self.state != "PreparingRebalance")
        return PARKED

    def _settle(self, *, is_smaller: bool = False) -> None:
        """Go on as far as possible; `is_smaller`: members have left, so a rebalance has to begin."""
        if not self.members:
            if is_smaller:
                self.state, self.protocol, self.leader, self.generation = "Empty", None, None, self.generation + 1
                self.gather_until = self.join_by = self.sync_by = None
            if not self.expected:
                self.generation = 0  # ours: a group without members is forgotten
            return
        if is_smaller and self.state != "PreparingRebalance":
            for member in self.members.values():
                member.owes_sync = False
                if member.sync is not None:
                    self._send(member.sync, "REBALANCE_IN_PROGRESS")
                    member.sync = None
                    self._hears_of(member)
            is_first, self.state, self.sync_by = self.state == "Empty", "PreparingRebalance", None
            self.join_by = self.now + max(one.rebalance_ms for one in self.members.values())
            if is_first and self.delay_ms:
                self._gathers()
            elif is_first:
                self._begins_generation()
        everybody = all(one.has_joined for one in self.members.values()) and not self.expected
        if self.state == "PreparingRebalance" and self.gather_until is None and everybody:
            self._begins_generation()

    def _gathers(self) -> None:
        assert self.join_by is not None
        self.has_grown = False
        self.gather_until = min(self.now + self.delay_ms, self.join_by)

    def _begins_generation(self) -> list[Member]:
        self.gather_until = None
        late = [self._goes(one) for one in list(self.members.values()) if not one.has_joined and one.instance is None]
        joined = [one for one in self.members.values() if one.has_joined]
        if not self.members:
            self._settle(is_smaller=True)
            return late
        if not joined:
            self.join_by = self.now + max(one.rebalance_ms for one in self.members.values())
            return late
        self.generation += 1
        self.state, self.join_by = "CompletingRebalance", None
        old_leader = self.members.get(self.leader or "")
        winners = self._winners()
        self.leader, self.protocol = self.choice(self.generation)
        assert self.protocol in winners, "a protocol that others like better, or not all can do"
        assert self.members[self.leader].has_joined, "a leader that has not joined"
        if old_leader is not None and old_leader.join is not None:
            assert self.leader == old_leader.name, "who leads and has joined again leads on"
        if any(one.join is not None for one in joined):
            assert self.members[self.leader].join is not None, "a leader that cannot hear it"
        for member in joined:
            member.has_joined, member.owes_sync, member.knows_its_name = False, True, True
        for member in [one for one in joined if one.join is not None]:
            self._send(member.join, *self._generation_for(member))
            member.join = None
            self._hears_of(member)
        self.sync_by = self.now + max(one.rebalance_ms for one in joined)
        return late

    # -- helpers ---------------------------------------------

    def _generation_for(self, member: Member) -> Answer:
        everybody = tuple(self.members) if member.name == self.leader else ()
        return ("NONE", self.generation, self.protocol, self.leader, member.name, everybody)

    def _goes(self, member: Member) -> Member:
        del self.members[member.name]
        self._send(member.join, "UNKNOWN_MEMBER_ID")
        self._send(member.sync, "UNKNOWN_MEMBER_ID")
        return member

    def _send(self, call: object, *answer: Any) -> None:
        if call is not None:
            self.sent.append((call, answer))

    def _hears_of(self, member: Member) -> None:
        if member.join is None and member.sync is None:
            member.silent_at = self.now + member.session_ms

    def _holder(self, instance: str | None) -> Member | None:
        return next((one for one in self.members.values() if instance is not None and one.instance == instance), None)

    def _refusal(self, name: str, instance: str | None) -> str | None:
        holder = self._holder(instance)
        if instance is not None and holder is None:
            return "UNKNOWN_MEMBER_ID"
        if holder is not None and holder.name != name:
            return "FENCED_INSTANCE_ID"
        return None if name in self.members else "UNKNOWN_MEMBER_ID"

    def _outdated(self, generation: int) -> str | None:
        return None if generation == self.generation else "ILLEGAL_GENERATION"

    def _agrees(self, offers: list[str], apart_from: Member | None) -> bool:
        others = [set(one.offers) for one in self.members.values() if one is not apart_from]
        return bool(set(offers).intersection(*others))

    def _winners(self) -> set[str]:
        """The protocols that all members support and most prefer."""
        able = set.intersection(*(set(one.offers) for one in self.members.values()))
        votes = [next(offer for offer in one.offers if offer in able) for one in self.members.values()]
        return {one for one in votes if votes.count(one) == max(map(votes.count, votes))}
