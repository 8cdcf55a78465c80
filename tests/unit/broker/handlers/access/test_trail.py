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
NO_RULE = "no rule is about the resource"


class Rules:
    """Says why something was denied, and counts how often it was asked."""

    def __init__(self, why: str = NO_RULE) -> None:
        self.why, self.asked = why, 0

    def reason(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> str:
        self.asked += 1
        return self.why


RULES = Rules()


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
    kept, rules = Kept(), Rules()
    for _ in range(1_000):
        kept.trail.denied(rules, ME, Operation.READ, Resource.TOPIC, "clicks")
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
        "reason": NO_RULE,
        "count": 1_000,
    }
    assert kept.metrics.access_denied == {("READ", "TOPIC"): 1_000}
    assert rules.asked == 1, "a repeated denial costs no second decision"


def test_each_second_begins_with_new_counts() -> None:
    kept = Kept()
    for count in (3, 2):
        for _ in range(count):
            kept.trail.denied(RULES, ME, Operation.READ, Resource.TOPIC, "clicks")
        kept.second()
    assert [event["count"] for event in kept.events] == [3, 2]
    assert kept.metrics.access_denied == {("READ", "TOPIC"): 5}


def test_what_differs_in_a_field_is_another_event() -> None:
    kept = Kept()
    for asker in (ME, ME._replace(principal="User:b"), ME._replace(host="10.0.0.2"), ME._replace(client_id="other")):
        for operation in (Operation.READ, Operation.DESCRIBE):
            for name in ("clicks", "orders"):
                kept.trail.denied(RULES, asker, operation, Resource.TOPIC, name)
    kept.trail.denied(RULES, ME, Operation.READ, Resource.GROUP, "clicks")
    kept.second()
    assert [event["count"] for event in kept.events] == [1] * 17


def test_rules_that_change_within_a_second_give_an_event_with_their_own_reason() -> None:
    kept = Kept()
    for rules in (RULES, Rules("User:a may not"), RULES):
        kept.trail.denied(rules, ME, Operation.READ, Resource.TOPIC, "clicks")
    kept.second()
    assert [(event["reason"], event["count"]) for event in kept.events] == [(NO_RULE, 2), ("User:a may not", 1)]


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
    rules = Rules()
    for number in (*range(25), 3):
        kept.trail.denied(rules, ME, Operation.READ, Resource.TOPIC, f"t{number}")
    kept.second()
    *denied, left_out = kept.events
    assert (len(denied), kept.metrics.access_events_left_out) == (10, 15)
    assert (left_out["kind"], left_out["count"]) == ("left_out", 15)
    assert sum(event["count"] for event in kept.events) == 26, "no event is lost silently"
    assert rules.asked == 10, "what is left out costs no decision"
    kept.trail.denied(RULES, ME, Operation.READ, Resource.TOPIC, "t25")
    kept.second()
    assert len(kept.events) == 12


def test_the_table_of_repeated_denials_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail_room, "MOST_KINDS", 10)
    kept = Kept()
    for number in range(100):
        for name in ("clicks", f"t{number}", "x" * 30_000):
            kept.trail.denied(Rules(), ME, Operation.READ, Resource.TOPIC, name)
    assert len(kept.trail._denied) <= 10
    assert all(len(name) <= LONGEST_WORD for *_, name in kept.trail._denied)
    kept.second()
    assert sum(event["count"] for event in kept.events) == 300
    assert not kept.trail._denied


def test_long_words_of_clients_are_cut() -> None:
    kept = Kept()
    kept.trail.denied(RULES, ME._replace(client_id="x" * 30_000), Operation.READ, Resource.GROUP, "g" * 30_000)
    kept.second()
    assert max(len(str(value)) for value in kept.events[0].values()) == LONGEST_WORD


def test_the_events_of_the_last_second_are_logged_when_the_broker_stops(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    with caplog.at_level("INFO", logger="headrace.broker.access"):
        for _ in range(7):
            kept.trail.denied(RULES, ME, Operation.READ, Resource.TOPIC, "clicks")
        kept.trail.close()
    (line,) = [record for record in caplog.records if record.getMessage() == "access"]
    assert (line.fields["name"], line.fields["count"]) == ("clicks", 7)  # type: ignore[attr-defined]
    assert not kept.events, "the topic takes no more"
