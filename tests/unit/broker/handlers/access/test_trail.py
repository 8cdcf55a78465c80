"""The trail of access: what is in it, and its bounds."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.handlers.access import trail as trail_room
from headrace.broker.handlers.access.asking import Asker
from headrace.broker.handlers.access.trail import EVERY_MS, LONGEST_WORD, Trail
from headrace.broker.metrics import BrokerMetrics
from headrace.broker.rights.rule import Operation, Resource

NOW_MS = 1_800_000_000_000
ME = Asker("User:a", "10.0.0.1", "Fetch", "app")


class HandTimer:
    def __init__(self) -> None:
        self.now_ms = 5
        self.calls: list[tuple[int, Callable[[], None]]] = []

    def call_at(self, when_ms: int, call: Callable[[], None]) -> None:
        self.calls.append((when_ms, call))


class Kept:
    """A trail with a hand timer, and what it handed on."""

    def __init__(self) -> None:
        self.timer, self.metrics = HandTimer(), BrokerMetrics()
        self.events: list[dict[str, Any]] = []
        self.trail = Trail(self.timer, lambda: NOW_MS, self.metrics, self.events.extend)

    def second(self) -> None:
        ((when_ms, flush),) = self.timer.calls
        assert when_ms == self.timer.now_ms + EVERY_MS
        self.timer.calls.clear()
        flush()


def test_equal_denials_of_a_second_are_one_event_with_a_count() -> None:
    kept = Kept()
    for _ in range(1_000):
        kept.trail.denied(ME, Operation.READ, Resource.TOPIC, "clicks", "no rule is about the resource")
    kept.second()
    (event,) = kept.events
    assert event == {
        "time_ms": NOW_MS,
        "kind": "denied",
        "principal": "User:a",
        "host": "10.0.0.1",
        "api": "Fetch",
        "client_id": "app",
        "operation": "READ",
        "resource": "TOPIC",
        "name": "clicks",
        "reason": "no rule is about the resource",
        "count": 1_000,
    }
    assert kept.metrics.access_denied == {("READ", "TOPIC"): 1_000}


def test_a_failed_login_and_a_change_are_events() -> None:
    kept = Kept()
    kept.trail.login_failed("User:b", "10.0.0.2", "PLAIN", "wrong password")
    kept.trail.changed(ME, ["clicks", "orders"])
    kept.second()
    failed, changed = kept.events
    assert (failed["kind"], failed["principal"], failed["mechanism"]) == ("login_failed", "User:b", "PLAIN")
    assert (changed["kind"], changed["name"]) == ("changed", "clicks, orders")


def test_more_kinds_of_events_than_a_second_may_have_are_counted_as_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail_room, "MOST_KINDS", 10)
    kept = Kept()
    for number in range(25):
        kept.trail.denied(ME, Operation.READ, Resource.TOPIC, f"t{number}", "")
    kept.second()
    assert (len(kept.events), kept.metrics.access_events_left_out) == (10, 15)
    kept.trail.denied(ME, Operation.READ, Resource.TOPIC, "t25", "")
    kept.second()
    assert len(kept.events) == 11


def test_long_words_of_clients_are_cut() -> None:
    kept = Kept()
    kept.trail.denied(ME._replace(client_id="x" * 30_000), Operation.READ, Resource.GROUP, "g" * 30_000, "")
    kept.second()
    assert max(len(str(value)) for value in kept.events[0].values()) == LONGEST_WORD
