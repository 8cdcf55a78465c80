"""Any history, answer by answer: the coordinator against a second implementation of Kafka's rules."""

from itertools import count
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.broker.groups.messages import JoinAnswer, Leaver, ProtocolOffer, SyncAnswer
from tests.unit.broker.groups.kafkas_rules import PARKED, Answer, KafkasGroup
from tests.unit.broker.groups.scene import Asked, Scene

STEP_MS = 250
"""How often both get the time."""
SLOTS = st.integers(0, 3)
OWN = "own"
INSTANCES = st.sampled_from([OWN, OWN, OWN, OWN, None, "i0", "i1"])
OFFERS = st.sampled_from([["range"], ["range", "sticky"], ["sticky", "range"], ["sticky"]])
SESSIONS_MS = st.sampled_from([1_000, 3_000, 3_000, 10_000, 400])
REBALANCES_MS = st.sampled_from([1_000, 2_000, 5_000, 20_000])


class Client:
    """What one client believes."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.name = ""
        self.generation = -1
        self.others: tuple[str, ...] = ()


class SameAnswers(RuleBasedStateMachine):
    """Four clients, sensible and confused; two of them at times under one instance id; time; broken connections."""

    @initialize(delay_ms=st.sampled_from([0, 0, 750]), size=st.sampled_from([2, 100]))
    def begin(self, delay_ms: int, size: int) -> None:
        numbers = count(1)
        self.issued = [""]
        self.heard: dict[int, tuple[str, str]] = {}

        def new_name(name: str) -> str:
            self.issued.append(f"{name}-{next(numbers)}")
            return self.issued[-1]

        self.scene = Scene(
            new_name,
            initial_rebalance_delay_ms=delay_ms,
            members_per_group=size,
            min_session_timeout_ms=500,
            max_session_timeout_ms=60_000,
        )
        self.kafka = KafkasGroup(delay_ms, size, range(500, 60_001), self._choice, now=self.scene.now_ms)
        self.clients = [Client("i0"), Client("i1"), Client(None), Client(None)]
        self.parked: list[tuple[Asked, Client]] = []

    @rule(
        slot=SLOTS,
        named=st.booleans(),
        instance=INSTANCES,
        offers=OFFERS,
        session_ms=SESSIONS_MS,
        rebalance_ms=REBALANCES_MS,
        needs_name=st.booleans(),
    )
    def joins(self, slot: int, named: bool, instance: str | None, offers: list[str], needs_name: bool, **times: Any) -> None:
        client = self.clients[slot]
        instance = client.instance if instance == OWN else instance
        name = client.name if named else ""
        offered = [ProtocolOffer(one, one.encode()) for one in offers]
        asked = self.scene.join(name, instance=instance, offers=offered, id_first=needs_name, **times)
        stays = any(one.generation == self.kafka.generation for one in asked.answers)
        said = self.kafka.joins(
            asked, name, instance, offers, needs_name=needs_name, new_name=self.issued[-1], stays_in_a_tie=stays, **times
        )
        self._compare(asked, said, client)

    @rule(
        rounds=st.integers(1, 4),
        slots=st.sets(SLOTS, min_size=1),
        offers=OFFERS,
        session_ms=SESSIONS_MS,
        rebalance_ms=REBALANCES_MS,
    )
    def they_work_as_clients_do(self, rounds: int, slots: set[int], offers: list[str], **times: int) -> None:
        for slot in [*sorted(slots)] * rounds:
            client = self.clients[slot]
            if any(client is waiting for _, waiting in self.parked):
                continue
            error = self._beat(client, client.instance)
            if error in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
                client.name = ""
            if error == "NONE":
                self.syncs(slot, OWN, 0)
            else:
                self.joins(slot, bool(client.name), OWN, offers, needs_name=True, **times)
            self.all_that_was_parked_has_the_same_answers()

    @rule(slot=SLOTS, instance=INSTANCES, late=st.sampled_from([0, 0, 0, 1]))
    def syncs(self, slot: int, instance: str | None, late: int) -> None:
        client = self.clients[slot]
        instance = client.instance if instance == OWN else instance
        generation = client.generation - late
        assignments = {one: f"{generation}:{one}".encode() for one in client.others}
        asked = self.scene.sync(client.name, generation, assignments, instance_id=instance)
        self._compare(asked, self.kafka.syncs(asked, client.name, instance, generation, assignments), client)

    @rule(slot=SLOTS, instance=INSTANCES)
    def beats(self, slot: int, instance: str | None) -> None:
        client = self.clients[slot]
        self._beat(client, client.instance if instance == OWN else instance)

    @rule(slot=SLOTS, instance=INSTANCES, bare=st.booleans())
    def commits(self, slot: int, instance: str | None, bare: bool) -> None:
        client = self.clients[slot]
        instance = client.instance if instance == OWN else instance
        generation = -1 if bare else client.generation
        error = self.scene.may_commit(client.name, generation, instance=instance)
        assert (error.name,) == self.kafka.commits(client.name, instance, generation)

    @rule(who=st.lists(st.tuples(st.integers(-1, 3), INSTANCES), min_size=1, max_size=3))
    def leave(self, who: list[tuple[int, str | None]]) -> None:
        leavers = [
            Leaver("", None if instance == OWN else instance)
            if slot < 0
            else Leaver(self.clients[slot].name, self.clients[slot].instance if instance == OWN else instance)
            for slot, instance in who
        ]
        errors = self.scene.leave_all(leavers)
        assert [error.name for error in errors] == self.kafka.leave(leavers)

    @rule(number=st.integers(0, 3))
    def a_connection_breaks(self, number: int) -> None:
        if number < len(self.parked):
            asked, _ = self.parked.pop(number)
            self.scene.cancel(asked)
            self.kafka.loses(asked)

    @rule(slot=SLOTS, offers=OFFERS, session_ms=SESSIONS_MS, rebalance_ms=REBALANCES_MS)
    def a_process_begins_again(self, slot: int, offers: list[str], **times: int) -> None:
        client = self.clients[slot]
        self.clients[slot] = Client(client.instance)
        for asked, waiting in [*self.parked]:
            if waiting is client:
                self.parked.remove((asked, waiting))
                self.scene.cancel(asked)
                self.kafka.loses(asked)
        self.joins(slot, False, OWN, offers, needs_name=True, **times)
        if self.clients[slot].generation >= 0:
            self.syncs(slot, OWN, 0)

    @rule(steps=st.sampled_from([1, 1, 2, 4, 8, 12, 20, 41]))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            out = self.scene.pass_ms(STEP_MS)
            assert sorted(out) == sorted(self.kafka.time_is(self.scene.now_ms))
            self.all_that_was_parked_has_the_same_answers()

    @invariant()
    def all_that_was_parked_has_the_same_answers(self) -> None:
        if not hasattr(self, "scene"):
            return
        sent = {id(call): answer for call, answer in self.kafka.sent}
        for asked, client in list(self.parked):
            assert bool(asked.answers) == (id(asked) in sent), (asked.answers, sent.get(id(asked)))
            if asked.answers:
                assert _plain(asked.answer) == sent[id(asked)]
                self._learn(asked.answer, client)
                self.parked.remove((asked, client))
        self.kafka.sent.clear()
        assert (self.scene.state() or "Empty") == self.kafka.state
        assert self.scene.members() == list(self.kafka.members)

    def _beat(self, client: Client, instance: str | None) -> str:
        error = self.scene.heartbeat(client.name, client.generation, instance=instance)
        assert (error.name,) == self.kafka.beats(client.name, instance, client.generation)
        return error.name

    def _compare(self, asked: Asked, said: Answer, client: Client) -> None:
        if said == PARKED:
            self.parked.append((asked, client))
        else:
            assert _plain(asked.answer) == said
            self._learn(asked.answer, client)

    def _learn(self, answer: Any, client: Client) -> None:
        if isinstance(answer, JoinAnswer) and answer.member_id and answer.error.name in ("NONE", "MEMBER_ID_REQUIRED"):
            client.name = answer.member_id
            client.generation = answer.generation
            client.others = tuple(one.member_id for one in answer.members)

    def _choice(self, generation: int) -> tuple[str, str]:
        for asked, _ in self.parked:
            for answer in asked.answers:
                if isinstance(answer, JoinAnswer) and answer.generation == generation:
                    return answer.leader_id, str(answer.protocol)
        group = self.scene.coordinator.get("g")
        assert group is not None
        return group.leader_id or "", group.protocol or ""


def _plain(answer: JoinAnswer | SyncAnswer) -> Answer:
    """Return an answer as the model says it."""
    error = answer.error.name
    if isinstance(answer, SyncAnswer):
        return ("NONE", answer.assignment) if error == "NONE" else (error,)
    if error == "MEMBER_ID_REQUIRED":
        return (error, answer.member_id)
    if error != "NONE":
        return (error,)
    names = tuple(one.member_id for one in answer.members)
    return (error, answer.generation, answer.protocol, answer.leader_id, answer.member_id, names)


SameAnswers.TestCase.settings = settings(max_examples=120, stateful_step_count=50)
TestSameAnswers = SameAnswers.TestCase
