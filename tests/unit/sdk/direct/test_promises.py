"""An event is taken into a window only once the audit topic has acknowledged that the logger may hold it."""

import asyncio
import threading
import time

from headrace.audit.model.messages import MAX_HOLDS, ProducerReport
from headrace.runtime.clock import ManualClock
from headrace.sdk import EventLogger
from headrace.sdk.direct.promises import KEEP_AHEAD_MS, MOST_AHEAD, NEXT_FROM_MS, Promises, holds_of
from tests.support.processes import eventually, free_port
from tests.support.scripted_broker import PRODUCE, Fault, ScriptedBroker
from tests.unit.sdk.direct.test_fork import in_child
from tests.unit.sdk.logged import WINDOW_MS, Make, books_of, reports_of
from tests.unit.sdk.scripted_registry import ScriptedRegistry

W = 600_000
NOW = 1_000 * W


def holds(report: ProducerReport, window_start_ms: int, window_ms: int = WINDOW_MS) -> bool:
    assert report.holds is not None
    return any(one.from_ms <= window_start_ms and window_start_ms + window_ms <= one.to_ms for one in report.holds)


class Rules:
    """Promises whose reporter is this test."""

    def __init__(self, now_ms: int = NOW, *, is_live: bool = True, is_strict: bool = False) -> None:
        self.clock = ManualClock(now_ms)
        self.woken = 0
        self.mutex = threading.RLock()
        self.promises = Promises(
            self.mutex, self.clock, topic="t", window_ms=W, is_live=is_live, only_between_ms=None, is_strict=is_strict,
            wake=self._wake,
        )  # fmt: skip

    def _wake(self) -> None:
        self.woken += 1

    def report(self, under_way: dict[int, int] | None = None, *, is_acknowledged: bool = True) -> set[int]:
        with self.mutex:
            found = self.promises.compose(under_way or {})
        self.promises.reported(is_acknowledged)
        return {at // W for one in found for at in range(one.from_ms, one.to_ms, W)}

    def admits(self, window: int) -> bool:
        with self.mutex:
            return self.promises.admit(window * W, 0)


def test_the_current_window_is_always_held_and_the_next_one_from_two_minutes_before_it() -> None:
    rules = Rules()
    assert rules.report() == {1_000}
    rules.clock.advance(W - NEXT_FROM_MS)
    assert rules.report() == {1_000, 1_001}
    rules.clock.advance(NEXT_FROM_MS)
    assert rules.report() == {1_001}


def test_a_window_is_held_as_long_as_something_of_it_is_under_way_and_not_entered_before_it_is_acknowledged() -> None:
    rules = Rules()
    assert not rules.admits(1_000), "nothing is acknowledged"
    rules.report(is_acknowledged=False)
    assert not rules.admits(1_000)
    rules.report()
    assert rules.admits(1_000)
    rules.clock.advance(W)
    rules.report()
    assert rules.report({1_000: 3}) == {1_000, 1_001}
    assert rules.admits(1_000)
    assert rules.report() == {1_000, 1_001}, "one came just now: another is not far"
    assert rules.report() == {1_001}
    assert not rules.admits(1_000), "let go, though the audit has not heard it yet"


def test_a_replay_is_asked_for_more_and_more_windows_ahead_as_it_goes_on() -> None:
    rules = Rules(is_live=False)
    asked, window = [], 5
    for _ in range(8):
        assert not rules.admits(window)
        held = rules.report()
        asked.append(sum(one >= window for one in held))
        while rules.admits(window):
            window += 1
        assert window == max(held) + 1
    assert [count for count in asked if count < MOST_AHEAD][:5] == [2, 4, 8, 16, 32]
    assert max(asked) == MOST_AHEAD
    rules.report()
    rules.clock.advance(KEEP_AHEAD_MS)
    assert rules.report() == set(), "nothing of it is left"


def test_the_reporter_is_woken_once_however_many_events_ask_and_not_while_the_audit_topic_is_away() -> None:
    rules = Rules()
    for window in (1, 1, 5, 9):
        assert not rules.admits(window)
    assert rules.woken == 1
    rules.report(is_acknowledged=False)
    assert not rules.admits(20)
    assert rules.woken == 1
    rules.report()
    assert not rules.admits(500)
    assert rules.woken == 2


def test_more_ranges_than_a_report_holds_are_joined_where_the_least_lies_between() -> None:
    windows = [*range(0, 80, 2), 1_000]
    found = holds_of(windows, dict.fromkeys(windows, 1), W)
    assert len(found) == MAX_HOLDS
    assert found[-1] == (1_000 * W, 1_001 * W, 1), "the far one stands alone"
    assert sum(one.under_way for one in found) == len(windows)
    assert all(any(one.from_ms <= at * W < one.to_ms for one in found) for at in windows)


def test_log_returns_once_a_late_window_is_acknowledged(broker: ScriptedBroker, make: Make) -> None:
    logger = make(report_every_ms=60_000)
    began = time.monotonic()
    assert logger.log({"page": "/"}, event_time_ms=5_500)
    assert time.monotonic() - began < 1, "the reporter was woken"
    assert holds(reports_of(broker)[-1], 5_000), "acknowledged before `log` returned"
    logger.flush()
    logger.close()
    assert reports_of(broker)[-1].holds == ()
    assert logger.ledger().unpromised == 0


def test_events_of_now_cost_no_report_and_no_wait(broker: ScriptedBroker, make: Make, monkeypatch: object) -> None:
    logger = make(report_every_ms=60_000, clock=ManualClock(NOW))
    eventually(lambda: len(reports_of(broker)) >= 1)
    said = len(reports_of(broker))
    for _ in range(100):
        assert logger.log({"page": "/"}, event_time_ms=NOW, max_block_ms=0)
    assert len(reports_of(broker)) == said
    assert logger.ledger().unpromised == 0


def test_without_the_audit_topic_events_are_taken_and_counted(registry: ScriptedRegistry, make: Make) -> None:
    logger = make(bootstrap=f"127.0.0.1:{free_port()}", start_timeout_ms=50)
    began = time.monotonic()
    assert all(logger.log({"page": "/"}) for _ in range(5))
    assert time.monotonic() - began < 0.5, "the start has waited already"
    assert logger.ledger().unpromised == 5


def test_an_outage_in_a_run_is_waited_for_once_and_over_with_the_next_report(broker: ScriptedBroker, make: Make) -> None:
    logger = make()
    logger.log({"page": "/"}, event_time_ms=1_500)
    logger.flush()
    broker.fail(PRODUCE, *[Fault(close_after=True)] * 10_000)
    began = time.monotonic()
    assert logger.log({"page": "/"}, event_time_ms=90_500, max_block_ms=200)
    assert 0.2 <= time.monotonic() - began < 0.9
    began = time.monotonic()
    assert all(logger.log({"page": "/"}, event_time_ms=90_500 + at * 1_000, max_block_ms=200) for at in range(5))
    assert time.monotonic() - began < 0.2, "once per outage"
    assert logger.ledger().unpromised == 6
    broker.faults[PRODUCE].clear()
    said = len(reports_of(broker))
    eventually(lambda: len(reports_of(broker)) > said + 1 and logger.ledger().under_way == 0)
    assert logger.log({"page": "/"}, event_time_ms=90_500)
    logger.close()
    assert logger.ledger().unpromised == 6


def test_a_strict_logger_takes_nothing_without_the_promise_and_counts_it_by_name(broker: ScriptedBroker, make: Make) -> None:
    logger = make(strict=True)
    broker.fail(PRODUCE, *[Fault(close_after=True)] * 10_000)
    assert not logger.log({"page": "/"}, event_time_ms=90_500, max_block_ms=0)
    assert not logger.log({"page": "/"}, event_time_ms=90_500, max_block_ms=50)
    broker.faults[PRODUCE].clear()
    eventually(lambda: logger.log({"page": "/"}, event_time_ms=90_500, max_block_ms=0))
    logger.close()
    lost = logger.ledger().dropped["dropped_unpromised"]
    assert lost >= 2
    assert logger.ledger().unpromised == 0
    assert books_of(broker)[90_000] == (1, {"dropped_unpromised": lost})


def test_a_coroutine_awaits_the_promise(broker: ScriptedBroker, make: Make) -> None:
    logger = make(report_every_ms=60_000)
    assert asyncio.run(logger.alog({"page": "/"}, event_time_ms=7_500))
    assert holds(reports_of(broker)[-1], 7_000)
    assert logger.ledger().unpromised == 0


def test_a_forked_child_is_announced_with_its_window_before_its_first_log_returns(broker: ScriptedBroker, make: Make) -> None:
    """Fault: a forked child logged 100, log() returned True, and was killed at once: COMPLETE without them."""
    logger = make(clock=ManualClock(NOW), linger_ms=60_000)
    parent = logger.instance

    def log_and_die() -> None:
        assert logger.log({"page": "/"}, event_time_ms=NOW)
        assert logger.ledger().unpromised == 0

    in_child(log_and_die)  # it ends by `_exit`, unflushed and unsealed
    told = [report for report in reports_of(broker) if report.instance != parent]
    assert told
    assert holds(told[-1], NOW)
    assert told[-1].state == "open"


def test_what_waits_for_the_schema_is_held_too(broker: ScriptedBroker, make: Make) -> None:
    logger: EventLogger = make(registry_url=f"http://127.0.0.1:{free_port()}", start_timeout_ms=2_000, report_every_ms=20)
    assert logger.log({"page": "/"}, event_time_ms=5_500)
    assert logger.ledger().unpromised == 0
    said = len(reports_of(broker))
    eventually(lambda: len(reports_of(broker)) > said + 5)
    assert holds(reports_of(broker)[-1], 5_000), "as long as it waits"
    assert [one.under_way for one in reports_of(broker)[-1].holds or () if one.from_ms == 5_000] == [1]
