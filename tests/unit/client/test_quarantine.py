"""What a stage writes to the quarantine."""

from typing import Any

import pytest

from headrace.audit.model.windows import WINDOW_MS
from headrace.client.quarantine import corrupt_range, send_quarantined, unusable
from headrace.wire.quarantine_record import PAYLOAD_LIMIT_BYTES, LogOrigin, QuarantineRecord

ORIGIN = LogOrigin(cluster="live", topic="clicks", partition=1, offset=5, to_offset=9)
NOW_MS = 10 * WINDOW_MS + 7


class SentRecords:
    """Takes records as the producer would."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def send(self, topic: str, value: bytes, **more: Any) -> None:
        self.sent.append((topic, {"value": value, **more}))


@pytest.mark.parametrize(
    ("previous_ms", "window_start_ms", "window_from"),
    [(None, 10 * WINDOW_MS, "clock"), (3 * WINDOW_MS + 1, 3 * WINDOW_MS, "previous")],
)
def test_a_range_is_counted_in_the_window_of_the_record_before_it_else_of_the_clock(
    previous_ms: int | None, window_start_ms: int, window_from: str
) -> None:
    record = corrupt_range("mirror", ORIGIN, "cut", previous_ms=previous_ms, now_ms=NOW_MS)
    assert (record.window_start_ms, record.window_from) == (window_start_ms, window_from)
    assert (record.topic, record.stage, record.code, record.reason) == ("clicks", "mirror", "corrupt_batch", "cut")
    assert (record.origin, record.at_ms, record.payload) == (ORIGIN, NOW_MS, b"")


def test_an_unusable_record_is_counted_in_its_own_window_and_its_payload_is_cut() -> None:
    payload = memoryview(b"x" * (PAYLOAD_LIMIT_BYTES + 1))
    record = unusable("load", ORIGIN, "not_framed", "why", timestamp_ms=3 * WINDOW_MS + 1, payload=payload, now_ms=NOW_MS)
    assert (record.window_start_ms, record.window_from, record.at_ms) == (3 * WINDOW_MS, "record", NOW_MS)
    assert (record.topic, record.stage, record.code, record.reason) == ("clicks", "load", "not_framed", "why")
    assert record.payload == bytes(payload[:PAYLOAD_LIMIT_BYTES])
    none = unusable("load", ORIGIN, "no_payload", "why", timestamp_ms=0, payload=None, now_ms=NOW_MS)
    assert none.payload == b""


def test_a_record_goes_to_its_topics_quarantine_under_its_origin_dated_as_asked() -> None:
    record, producer = corrupt_range("load", ORIGIN, "cut", previous_ms=None, now_ms=NOW_MS), SentRecords()
    send_quarantined(producer, record)  # type: ignore[arg-type]
    send_quarantined(producer, record, timestamp_ms=4, max_block_ms=9)  # type: ignore[arg-type]
    (first_topic, first), (second_topic, second) = producer.sent
    assert first_topic == second_topic == "clicks.quarantine"
    assert QuarantineRecord.from_json(first["value"]) == record
    assert first["key"] == second["key"] == b'{"cluster":"live","offset":5,"partition":1,"to_offset":9,"topic":"clicks"}'
    assert (first["timestamp_ms"], first["max_block_ms"]) == (NOW_MS, None)
    assert (second["timestamp_ms"], second["max_block_ms"]) == (4, 9)
