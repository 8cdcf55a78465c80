"""What happens to a refused event for which the quarantine has no room: counted each, told once."""

from typing import Any

import pytest

from headrace.client.errors import BufferFull
from headrace.runtime.clock import ManualClock
from headrace.sdk.direct.rejected_events import RejectedEvents
from headrace.wire.quarantine_record import ProcessOrigin, QuarantineRecord


class FullProducer:
    def send(self, topic: str, *_: Any, **__: Any) -> None:
        raise BufferFull(topic, 1, 0)


def test_a_flood_without_room_is_counted_whole_and_told_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    lost: list[tuple[str, int, str, int]] = []
    clock = ManualClock()
    quarantine = RejectedEvents("clicks", FullProducer(), lambda *one: lost.append(one), clock)  # type: ignore[arg-type]
    for sequence in range(50):
        quarantine.put(
            QuarantineRecord(
                topic="clicks",
                stage="sdk",
                code="schema_mismatch",
                reason="no",
                origin=ProcessOrigin(instance="i", sequence=sequence),
                window_start_ms=1_000,
                window_from="record",
                at_ms=1_000,
                payload=b"{}",
            ),
            max_block_ms=0,
        )
        if sequence == 48:
            clock.advance(10_000)
    assert lost == [("clicks", 1_000, "refused_by_schema", 1)] * 50
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[1].endswith("left_out=48")
