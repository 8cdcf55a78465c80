"""`headrace.reader.testing` feeds a handler what a reader would, faults too."""

from dataclasses import dataclass

import pytest

from headrace.reader import EventRecord, HandlerFailed, Quarantine, ReaderMisused
from headrace.reader.testing import START_MS, Given, feed
from headrace.sdk import EventRefused, event_schema


@dataclass
class Click:
    user: str
    path: str = "/"


@dataclass
class LaterClick:
    user: str
    price: float


def test_a_handler_gets_decoded_events_with_all_of_a_record() -> None:
    seen: list[EventRecord] = []
    fed = feed(
        seen.append, [Click("ann"), Given(event=Click("bob", "/a"), partition=3, key=b"k", headers=(("h", b"1"),))], topic="t"
    )
    assert [one.event for one in seen] == [Click("ann"), Click("bob", "/a")]
    assert fed.handled == seen
    assert (seen[0].topic, seen[0].partition, seen[0].offset, seen[0].timestamp_ms) == ("t", 0, 0, START_MS)
    assert (seen[1].partition, seen[1].offset, seen[1].key, seen[1].headers) == (3, 0, b"k", (("h", b"1"),))
    assert seen[1].timestamp_ms == START_MS + 1


def test_what_does_not_fit_the_reader_s_class_goes_to_quarantine() -> None:
    fed = feed(lambda _: None, [Click("ann"), LaterClick("bob", 2.0)], event_class=LaterClick)
    assert fed.handled_count == 1
    ((_, offset, code, reason),) = fed.quarantined
    assert (offset, code) == (0, "class_mismatch")
    assert "LaterClick.price" in reason


def test_payloads_of_any_bytes_go_to_quarantine_as_the_reader_s_do() -> None:
    fed = feed(lambda _: None, [b"no avro", Click("ann"), b"\0\0\0\0\x63!"])
    assert [(one.offset, one.code) for one in fed.quarantined] == [(0, "not_framed"), (2, "unknown_schema_id")]
    assert fed.handled_count == 1


def test_a_handler_that_fails_is_treated_as_on_error_says() -> None:
    calls: list[str] = []

    def handle(record: EventRecord) -> None:
        calls.append(record.event.user)
        if record.event.user == "bob":
            raise ValueError("not him")

    with pytest.raises(HandlerFailed, match="not him"):
        feed(handle, [Click("ann"), Click("bob"), Click("eve")])
    assert calls == ["ann", "bob"]
    calls.clear()
    fed = feed(handle, [Click("ann"), Click("bob"), Click("eve")], on_error=Quarantine(after=2))
    assert calls == ["ann", "bob", "bob", "eve"]
    assert [(one.offset, one.code) for one in fed.quarantined] == [(1, "handler_failed")]


def test_mappings_come_with_their_schema_and_coroutines_are_awaited() -> None:
    seen: list[str] = []

    async def handle(record: EventRecord) -> None:
        seen.append(record.event["path"])

    schema = event_schema("Click", [{"name": "path", "type": "string"}])
    assert feed(handle, [{"path": "/"}, {"path": "/a"}], schema=schema).handled_count == 2
    assert seen == ["/", "/a"]
    with pytest.raises(ReaderMisused, match="schema"):
        feed(handle, [{"path": "/"}])
    with pytest.raises(EventRefused, match="path"):
        feed(handle, [{"path": 5}], schema=schema)
