"""What is logged inside the logger, by a signal handler or a finalizer on its own thread: no deadlock, no loss unnamed."""

import threading
from collections.abc import Callable

import pytest

from headrace.sdk.direct.deferred import MOST, Deferred, DeferredEvent, DeferredLoss
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.sdk.logged import Make, books_of, direct, events_of


def within(seconds: float, work: Callable[[], None]) -> None:
    """Fail if the work takes longer: it is deadlocked."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "deadlocked"
    if failures:
        raise failures[0]


@pytest.mark.parametrize("lock", ["producer", "side", "reporter", "counting", "quarantine"])
def test_what_interrupts_the_holder_of_a_lock_is_taken_and_arrives(broker: ScriptedBroker, make: Make, lock: str) -> None:
    logger = make()
    transport = direct(logger)
    locks = {
        "producer": transport._producer.mutex,
        "side": transport._side.mutex,
        "reporter": transport._reporter._noting,
        "counting": transport._counting,
        "quarantine": transport._quarantine._telling,
    }

    def handle() -> None:
        with locks[lock]:
            assert logger.log({"page": "/inside"}, event_time_ms=1)
            assert not logger.log({"page": 7}, event_time_ms=1)
            assert not logger.log({"page": "x" * (33 << 20)}, event_time_ms=1)

    within(10, handle)
    logger.close()
    assert [event["page"] for _, event in events_of(broker)] == ["/inside"]
    assert books_of(broker) == {0: (1, {"quarantined": 1, "dropped_too_large": 1})}
    ledger = logger.ledger()
    assert (ledger.taken, ledger.quarantined, ledger.dropped) == (1, 1, {"dropped_too_large": 1})


def test_before_the_schemas_id_is_known_too(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    early = direct(logger)._early
    early.schema_id, append = None, direct(logger)._append
    direct(logger)._append = None

    def handle() -> None:
        with early._lock:
            assert logger.log({"page": "/inside"}, event_time_ms=1)

    within(10, handle)
    direct(logger)._append, early.schema_id = append, 42
    logger.close()
    assert [event["page"] for _, event in events_of(broker)] == ["/inside"]


def test_a_flood_inside_is_bounded_and_counted(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    taken = 0

    def handle() -> None:
        nonlocal taken
        with direct(logger)._producer.mutex:
            taken = sum(logger.log({"page": "/"}, event_time_ms=1) for _ in range(MOST + 10))

    within(20, handle)
    assert taken == MOST
    logger.close()
    assert len(events_of(broker)) == MOST
    assert sum(losses.get("dropped_buffer_full", 0) for _, losses in books_of(broker).values()) == 10


def test_an_event_inside_holds_its_window_open_until_it_is_settled(make: Make) -> None:
    logger = make(lateness_ms=0, report_every_ms=60_000)
    transport = direct(logger)
    with transport._producer.mutex:
        logger.log({"page": "/"}, event_time_ms=5_500)
        assert len(transport._deferred) == 1
        assert transport._moved_past_ms() == 5_000


def test_an_item_leaves_when_it_is_settled_and_overflows_are_told_once() -> None:
    deferred = Deferred()
    event = DeferredEvent(b"e", 5, None)
    assert deferred.put(event)
    assert deferred.put(DeferredLoss(3, "dropped_too_large", 1))
    assert (len(deferred), deferred.first_ms()) == (1, 3)
    for _ in range(MOST):
        deferred.put(event)
    seen: list[object] = []
    overflows: list[int] = []
    deferred.drain(lambda item: seen.append((item, deferred.first_ms() is not None)), overflows.append)
    assert seen[0] == (event, True)
    assert (len(seen), overflows) == (MOST, [2])
    deferred.drain(seen.append, overflows.append)
    assert (len(seen), overflows, deferred.first_ms()) == (MOST, [2], None)


def test_what_interrupts_a_drain_does_not_settle_the_same_item_again() -> None:
    """Names a fault: an event logged by a signal handler during a drain was sent twice, and the drain failed."""
    deferred = Deferred()
    for number in range(3):
        deferred.put(DeferredEvent(b"%d" % number, 0, None))
    seen: list[bytes] = []

    def settle(item: object) -> None:
        assert isinstance(item, DeferredEvent)
        seen.append(item.body)
        deferred.drain(settle, lambda _: None)

    deferred.drain(settle, lambda _: None)
    assert seen == [b"0", b"1", b"2"]
