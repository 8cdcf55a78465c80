"""Write to the quarantine: one record to the topic `<topic>.quarantine`; and what such a record says of a record, or a range of
offsets, of a log that cannot be used.

Does not decide what is quarantined, and does not wait for the acknowledgement. Readers count by key, so a record that is sent
twice does no harm.
"""

from ..audit.model.windows import dated, window_start_ms
from ..wire.quarantine_record import LogOrigin, QuarantineRecord, Stage, WindowFrom, head_of, quarantine_topic
from .producer.producer import Producer

Buffer = bytes | memoryview


def send_quarantined(
    producer: Producer, record: QuarantineRecord, *, timestamp_ms: int | None = None, max_block_ms: int | None = None
) -> None:
    """Send the record to its topic's quarantine topic. Its timestamp is `timestamp_ms`, else its own `at_ms`. Raises as
    `Producer.send`.
    """
    producer.send(
        quarantine_topic(record.topic),
        record.to_json(),
        key=record.key(),
        timestamp_ms=record.at_ms if timestamp_ms is None else timestamp_ms,
        max_block_ms=max_block_ms,
    )


def unusable(
    stage: Stage,
    origin: LogOrigin,
    code: str,
    reason: str,
    *,
    timestamp_ms: int,
    window_from: WindowFrom = "record",
    payload: Buffer | None,
    now_ms: int,
) -> QuarantineRecord:
    """Return the quarantine record of what a log holds at `origin`; at most the head of its payload."""
    return QuarantineRecord(
        topic=origin.topic,
        stage=stage,
        code=code,
        reason=reason,
        origin=origin,
        window_start_ms=window_start_ms(timestamp_ms),
        window_from=window_from,
        at_ms=now_ms,
        payload=head_of(payload or b""),
    )


def corrupt_range(stage: Stage, origin: LogOrigin, reason: str, *, previous_ms: int | None, now_ms: int) -> QuarantineRecord:
    """Return the quarantine record of a range of offsets that cannot be read; its payload is empty.

    `previous_ms` is the time of the record before the range; if known, it decides the window, else `now_ms` does.
    """
    time_ms, window_from = dated(None, previous_ms=previous_ms, clock_ms=now_ms)
    return unusable(
        stage, origin, "corrupt_batch", reason, timestamp_ms=time_ms, window_from=window_from, payload=None, now_ms=now_ms
    )
