"""Invariants of a group in any history. The machine runs against a model of its clients."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from headrace.broker.groups.group import Group
from headrace.broker.groups.messages import JoinedMember, ProtocolOffer
from headrace.wire.errors import ErrorCode
from tests.unit.broker.groups.scene import Asked, Scene

SESSION_MS, REBALANCE_MS, DELAY_MS = 10_000, 30_000, 500
STEP_MS = 250
"""How often the machine gets the time."""


def offered(names: list[str]) -> list[ProtocolOffer]:
    return [ProtocolOffer(name, name.encode()) for name in names]


class AnyHistory(RuleBasedStateMachine):
    """Clients join, sync, beat, leave, die and come back; time passes."""

    ids = Bundle("ids")
    instances = st.none() | st.sampled_from(["i1", "i2"])
    protocols = st.lists(st.sampled_from(["range", "sticky", "roundrobin"]), min_size=1, max_size=3, unique=True)

    @initialize(delay_ms=st.sampled_from([0, DELAY_MS]), size=st.sampled_from([2, 5, 100]))
    def begin(self, delay_ms: int, size: int) -> None:
        self.scene = Scene(initial_rebalance_delay_ms=delay_ms, members_per_group=size)
        self.joins: list[tuple[Asked, int]] = []
        """All parked requests, and when they were parked."""
        self.syncs: list[tuple[Asked, int]] = []
        self.cancelled: set[int] = set()
        self.instance_of: dict[str, str | None] = {}
        self.generation_of: dict[str, int] = {}
        self.generations: dict[tuple[Group, int], dict[str, Any]] = {}
        self.last_generation: dict[Group, int] = {}
        self.told_gone: set[str] = set()
        """Members whose removal some client knows of: they left, their session ended, or they were replaced."""
        self.known: set[str] = set()

    @rule(target=ids, instance=instances, names=protocols, id_first=st.booleans())
    def newcomer_joins(self, instance: str | None, names: list[str], id_first: bool) -> Any:
        group = self.scene.coordinator.get("g")
        old = None if group is None or instance is None else group.roster.instances.get(instance)
        before = set(self.scene.members())
        asked = self._join("", instance, names, id_first)
        if asked.answers and asked.error is ErrorCode.MEMBER_ID_REQUIRED:
            return asked.answer.member_id
        entered = [member_id for member_id in self.scene.members() if member_id not in before]
        for member_id in entered:
            self.instance_of[member_id] = instance
            if old is not None:
                self.told_gone.add(old)
        return multiple(*entered)

    @rule(member_id=ids, names=protocols)
    def member_joins_again(self, member_id: str, names: list[str]) -> None:
        self._join(member_id, self.instance_of.get(member_id), names, True)

    @rule(member_id=ids)
    def member_syncs(self, member_id: str) -> None:
        group = self.scene.coordinator.get("g")
        generation = self.generation_of.get(member_id, 0)
        assignments = {}
        if group is not None and group.leader_id == member_id:
            assignments = {one: f"{generation}:{one}".encode() for one in group.members}
        asked = self.scene.sync(member_id, generation, assignments, instance_id=self.instance_of.get(member_id))
        if asked.is_parked:
            self.syncs.append((asked, self.scene.now_ms))
        elif asked.error is ErrorCode.NONE and asked.answer.assignment:
            assert asked.answer.assignment.endswith(f":{member_id}".encode()) or self.instance_of.get(member_id)

    @rule(member_id=ids)
    def member_beats(self, member_id: str) -> None:
        self.scene.heartbeat(member_id, self.generation_of.get(member_id, 0), instance=self.instance_of.get(member_id))

    @rule(member_id=ids)
    def member_commits(self, member_id: str) -> None:
        generation = self.generation_of.get(member_id, 0)
        error = self.scene.may_commit(member_id, generation, instance=self.instance_of.get(member_id))
        if error is ErrorCode.NONE:
            group = self.scene.coordinator.get("g")
            assert group is not None
            assert member_id in group.members
            assert generation == group.generation

    @rule(member_id=consumes(ids))
    def member_leaves(self, member_id: str) -> None:
        if self.scene.leave(member_id, instance=self.instance_of.get(member_id)) is ErrorCode.NONE:
            self.told_gone.add(member_id)

    @rule(number=st.integers(0, 5))
    def a_connection_dies(self, number: int) -> None:
        waiting = [asked for asked, _ in [*self.joins, *self.syncs] if asked.is_parked and id(asked) not in self.cancelled]
        if number < len(waiting):
            before = set(self.scene.members())
            self.cancelled.add(id(waiting[number]))
            self.scene.cancel(waiting[number])
            self.told_gone |= before - set(self.scene.members())  # one that could not know its id

    @rule(steps=st.sampled_from([1, 2, 4, 20, 39, 40, 41, 80, 121]))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self.told_gone |= set(self.scene.pass_ms(STEP_MS))
            self._look()

    @invariant()
    def nothing_is_answered_twice_or_late(self) -> None:
        self._look()

    @invariant()
    def nobody_is_lost_without_a_word(self) -> None:
        members = set(self.scene.members()) if hasattr(self, "scene") else set()
        assert self.known - members <= self.told_gone
        self.known = members

    @invariant()
    def the_books_of_memory_balance(self) -> None:
        coordinator = self.scene.coordinator
        group = coordinator.get("g")
        if group is None:
            assert coordinator.held_bytes == 0
        else:
            members = sum(member.held_bytes for member in group.members.values())
            pending_members = sum(300 + len(one) for one in group.roster.pending_members)
            assert group.roster.held_bytes == members + pending_members
            assert set(group.roster.instances.values()) <= set(group.members)

    @invariant()
    def a_group_that_stands_has_one_leader_of_its_own(self) -> None:
        group = self.scene.coordinator.get("g")
        if group is not None and group.members and group.state.value in ("Stable", "CompletingRebalance"):
            assert group.leader_id in group.members
            assert all(group.protocol in {offer.name for offer in one.offers} for one in group.members.values())
            assert all(one.join_ticket is None for one in group.members.values())

    def teardown(self) -> None:
        if hasattr(self, "scene"):
            self.time_passes(4 * REBALANCE_MS // STEP_MS)
            assert len(self.scene.coordinator) == 0, "silence empties every group"
            assert self.scene.coordinator.held_bytes == 0
            waiting = [asked for asked, _ in [*self.joins, *self.syncs] if asked.is_parked]
            assert all(id(asked) in self.cancelled for asked in waiting)

    def _join(self, member_id: str, instance: str | None, names: list[str], id_first: bool) -> Asked:
        asked = self.scene.join(
            member_id,
            instance=instance,
            offers=offered(names),
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            id_first=id_first,
        )
        self.joins.append((asked, self.scene.now_ms))
        return asked

    def _look(self) -> None:
        """Check that every answer is allowed."""
        now_ms = self.scene.now_ms
        for asked, since_ms in [*self.joins, *self.syncs]:
            assert len(asked.answers) <= 1, "answered twice"
            if asked.is_parked and id(asked) not in self.cancelled:
                assert now_ms - since_ms <= REBALANCE_MS + STEP_MS, "kept waiting beyond the rebalance timeout"
        for asked, _ in self.joins:
            if asked.answers and asked.error is ErrorCode.NONE:
                self._check_generation(asked)
        self.joins = [(asked, since_ms) for asked, since_ms in self.joins if asked.is_parked]
        self.syncs = [(asked, since_ms) for asked, since_ms in self.syncs if asked.is_parked]

    def _check_generation(self, asked: Asked) -> None:
        answer = asked.answer
        self.generation_of[answer.member_id] = answer.generation
        group = self.scene.coordinator.get("g")
        assert group is not None
        # A group that was deserted begins again, as another one.
        assert answer.generation >= self.last_generation.get(group, 1), "generations ascend"
        self.last_generation[group] = answer.generation
        seen = self.generations.setdefault((group, answer.generation), {"protocol": answer.protocol, "leaders": set()})
        assert seen["protocol"] == answer.protocol, "all members of a generation have the same protocol"
        if answer.members:
            seen["leaders"].add(answer.member_id)
            assert answer.leader_id == answer.member_id
            assert len(seen["leaders"]) == 1, "one leader"
            assert all(isinstance(one, JoinedMember) and one.metadata == answer.protocol.encode() for one in answer.members)


AnyHistory.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestAnyHistory = AnyHistory.TestCase
