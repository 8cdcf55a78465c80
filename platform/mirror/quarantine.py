"""Records the offsets that the source cannot serve in the topic's quarantine on the source's cluster."""

from ..client.errors import ClientError
from ..client.fetch.fetched import TopicPartition
from ..client.producer.producer import Producer
from ..client.quarantine import corrupt_range, send_quarantined, unusable
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from ..wire.batch.record_batch import BatchHeader
from ..wire.quarantine_record import LogOrigin, QuarantineRecord
from .partition_copy import Gap

log = get_logger(__name__)


class CorruptRanges:
    """Writes one quarantine record for each unreadable range.

    The records and the audit's reports go through one producer, so a range is acknowledged no later than the next report.
    """

    def __init__(self, producer: Producer, clock: Clock, *, cluster: str) -> None:
        self._producer = producer
        self._clock = clock
        self._cluster = cluster

    def put(self, name: TopicPartition, gap: Gap, *, previous_ms: int | None) -> None:
        """Write the gap's record; `previous_ms` is the time of the record before it, if known. Raises ClientError."""
        origin = LogOrigin(
            cluster=self._cluster, topic=name.topic, partition=name.partition, offset=gap.from_offset, to_offset=gap.to_offset
        )
        reason = f"offsets {gap.from_offset} to {gap.to_offset} of {name.topic}-{name.partition} cannot be read in the source"
        self._send(name, corrupt_range("mirror", origin, reason, previous_ms=previous_ms, now_ms=self._clock.now_ms()))

    def put_refused(self, name: TopicPartition, header: BatchHeader, batch: memoryview, why: str) -> None:
        """Write the record of a batch that the destination does not take; its payload is the batch's head. Raises ClientError."""
        origin = LogOrigin(
            cluster=self._cluster,
            topic=name.topic,
            partition=name.partition,
            offset=header.base_offset,
            to_offset=header.next_offset,
        )
        reason = f"{header.record_count} records at offset {header.base_offset}, {header.size_bytes} bytes: {why}"
        record = unusable(
            "mirror",
            origin,
            "refused_by_destination",
            reason,
            timestamp_ms=header.max_timestamp_ms,
            payload=batch,
            now_ms=self._clock.now_ms(),
        )
        self._send(name, record)

    def _send(self, name: TopicPartition, record: QuarantineRecord) -> None:
        try:
            send_quarantined(self._producer, record)
        except ClientError as error:
            log.error("quarantine_not_written", topic=name.topic, partition=name.partition, error=str(error))
            raise
