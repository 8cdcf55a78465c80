"""Kafka's precedence of quotas, and what a client owes. Pure."""

import itertools

import pytest

from headrace.broker.quotas import limits
from headrace.broker.quotas.limits import DEFAULT, FETCH, KEYS, PRODUCE, REQUESTS
from headrace.broker.quotas.meter import MOST_OWED_MS, SAVED_MS, Meter
from headrace.broker.quotas.quotas import MOST_CLIENTS, MOST_ENTITIES, Quotas, TooManyQuotas
from headrace.coordination.quotas import Changed
from tests.unit.broker.hand_worker import HandWorker

ORDER = [
    (("ann", "app"), ("ann", "app")),
    (("ann", DEFAULT), ("ann", "app")),
    (("ann", None), ("ann", None)),
    ((DEFAULT, "app"), ("ann", "app")),
    ((DEFAULT, DEFAULT), ("ann", "app")),
    ((DEFAULT, None), ("ann", None)),
    ((None, "app"), (None, "app")),
    ((None, DEFAULT), (None, "app")),
]
"""An entity with a quota, and who shares it."""


def test_the_most_specific_quota_counts_in_kafkas_order() -> None:
    for present in itertools.chain.from_iterable(itertools.combinations(range(len(ORDER)), count) for count in (1, 2, 8)):
        known = {ORDER[at][0]: {PRODUCE: float(at + 1)} for at in present}
        first = min(present)
        assert limits.limit_of(known, PRODUCE, "ann", "app") == (float(first + 1), ORDER[first][1])


def test_each_quota_is_looked_for_by_itself() -> None:
    known = {("ann", "app"): {PRODUCE: 1.0}, ("ann", None): {FETCH: 2.0}}
    assert limits.limit_of(known, FETCH, "ann", "app") == (2.0, ("ann", None))
    assert limits.limit_of(known, REQUESTS, "ann", "app") is None
    assert limits.limit_of(known, PRODUCE, "ann", "other") is None


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("controller_mutation_rate", 1.0, "not served here"),
        ("connection_creation_rate", 1.0, "not served here"),
        ("colour", 1.0, "not served here"),
        (PRODUCE, 0.0, "larger than 0"),
        (FETCH, -1.0, "larger than 0"),
        (REQUESTS, float("nan"), "larger than 0"),
        (REQUESTS, float("inf"), "larger than 0"),
        (PRODUCE, 1.5, "whole number"),
    ],
)
def test_other_quotas_and_values_are_refused(key: str, value: float, why: str) -> None:
    assert why in (limits.fault_of(key, value) or "")


def test_quotas_are_read_as_kafka_writes_them_and_credentials_are_no_quotas() -> None:
    config = {key: limits.written(key, 2.0) for key in KEYS} | {"SCRAM-SHA-256": "salt=…", "unknown": "1"}
    assert config[PRODUCE] == "2"
    assert config[REQUESTS] == "2.0"
    assert limits.read(config) == dict.fromkeys(KEYS, 2.0)
    assert limits.read({PRODUCE: "many", FETCH: "-1"}) == {}


def test_a_client_pauses_until_what_it_used_is_paid_for() -> None:
    meter = Meter(1_000)
    assert meter.use(SAVED_MS, 10_000) == 0  # a second's worth is free after a pause
    assert meter.use(500, 10_000) == 500
    assert meter.owed_ms(10_300) == 200
    assert meter.use(100, 10_600) == 0
    assert meter.use(MOST_OWED_MS * 10, 10_600) == MOST_OWED_MS


def test_over_a_long_time_a_client_gets_its_rate() -> None:
    meter, now_ms, used = Meter(1_000), 100_000, 0
    while now_ms < 200_000:
        used += 700
        now_ms += max(1, meter.use(700, now_ms))
    assert 100_000 <= used <= 102_000


class Known:
    """A registry whose content is given."""

    def __init__(self) -> None:
        self.answers: list[Changed] = []

    def read(self, known: int | None = None) -> Changed:
        return self.answers.pop(0)

    def change(self, entity: limits.Entity, change: object) -> None:
        raise AssertionError("not called here")


def quotas(*answers: Changed) -> tuple[Quotas, HandWorker]:
    registry, worker = Known(), HandWorker()
    registry.answers += answers
    made = Quotas(registry, worker, lambda after_ms, call: None)  # type: ignore[arg-type]
    made.load()
    return made, worker


def test_clients_of_a_user_share_its_quota_and_each_client_id_has_its_own_default() -> None:
    shared, _ = quotas(Changed(0, {("ann", None): {PRODUCE: "10"}, (None, DEFAULT): {FETCH: "20"}}, is_all=True))
    one, other, stranger = shared.of("ann", "a"), shared.of("ann", "b"), shared.of("bob", "a")
    assert one is not None
    assert other is not None
    assert stranger is not None
    assert one.produce is other.produce is not None
    assert one.fetch is stranger.fetch is not other.fetch
    assert stranger.produce is one.requests is None


def test_a_change_counts_for_clients_that_are_known_already_and_keeps_what_they_owe() -> None:
    known, worker = quotas(Changed(0, {("ann", None): {PRODUCE: "10"}}, is_all=True))
    before = known.of("ann", "a")
    assert before is not None
    assert before.produce is not None
    assert before.produce.use(100, 5_000) > 0
    known._registry.answers.append(Changed(1, {("ann", None): {PRODUCE: "20"}}, is_all=False))  # type: ignore[attr-defined]
    known.refresh()
    worker.run()
    after = known.of("ann", "a")
    assert after is not None
    assert after.produce is before.produce
    assert after.produce.rate == 20
    known._registry.answers.append(Changed(2, {("ann", None): {}}, is_all=False))  # type: ignore[attr-defined]
    known.refresh()
    worker.run()
    assert known.of("ann", "a") is None
    assert not known.is_on


def test_what_is_remembered_of_clients_and_their_debts_is_bounded() -> None:
    known, _ = quotas(Changed(0, {(None, DEFAULT): {PRODUCE: "10"}}, is_all=True))
    for number in range(MOST_CLIENTS + 10):
        known.of("ann", f"app-{number}")
    assert len(known._clients) <= MOST_CLIENTS
    assert len(known._meters) == MOST_CLIENTS
    assert known.of("ann", "x" * 30_000) is not None  # too long for a quota of its own


def test_there_are_at_most_so_many_quotas() -> None:
    full, _ = quotas(Changed(0, {(f"u{number}", None): {PRODUCE: "1"} for number in range(MOST_ENTITIES)}, is_all=True))
    told: list[Exception | None] = []
    full.change(("another", None), lambda present: present, told.append)
    assert isinstance(told[0], TooManyQuotas)
