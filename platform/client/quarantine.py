"""Write to the quarantine: one record to the topic `<topic>.quarantine`, and the record of an unreadable range of offsets.

Does not decide what is quarantined, and does not wait for the acknowledgement. Readers count by key, so a record that is sent
twice does no harm.
"""

from ..audit.model.windows import dated, window_start_ms
from ..wire.quarantine_record import LogOrigin, QuarantineRecord, Stage, quarantine_topic
from .producer.producer import Producer


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


def corrupt_range(stage: Stage, origin: LogOrigin, reason: str, *, previous_ms: int | None, now_ms: int) -> QuarantineRecord:
    """Return the quarantine record of a range of offsets that cannot be read; its payload is empty.

    `previous_ms` is the time of the record before the range; if known, it decides the window, else `now_ms` does.
    """
    time_ms, window_from = dated(None, previous_ms=previous_ms, clock_ms=now_ms)
    return QuarantineRecord(
        topic=origin.topic,
        stage=stage,
        code="corrupt_batch",
        reason=reason,
        origin=origin,
        window_start_ms=window_start_ms(time_ms),
        window_from=window_from,
        at_ms=now_ms,
        payload=b"",
    )
