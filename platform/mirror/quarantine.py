"""Where offsets that the source cannot give are written down: the topic's quarantine, on the source's cluster."""

from ..audit.model.windows import dated, window_start_ms
from ..client.errors import ClientError
from ..client.fetched import TopicPartition
from ..client.producer import Producer
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from ..wire.quarantine_record import LogOrigin, QuarantineRecord, quarantine_topic
from .partition_copy import Gap

log = get_logger(__name__)


class Quarantine:
    """Writes one record for each unreadable range. It is on disk with the next report, as both go through one producer."""

    def __init__(self, producer: Producer, clock: Clock, *, cluster: str) -> None:
        self._producer = producer
        self._clock = clock
        self._cluster = cluster

    def put(self, name: TopicPartition, gap: Gap, *, previous_ms: int | None) -> None:
        """Note the gap; `previous_ms` is the time of the record before it, if known. Raises ClientError."""
        now_ms = self._clock.now_ms()
        moment_ms, window_from = dated(None, previous_ms=previous_ms, clock_ms=now_ms)
        record = QuarantineRecord(
            topic=name.topic,
            stage="mirror",
            code="corrupt_batch",
            reason=f"offsets {gap.from_offset} to {gap.to_offset} of {name.topic}-{name.partition} cannot be read in the source",
            origin=LogOrigin(
                cluster=self._cluster,
                topic=name.topic,
                partition=name.partition,
                offset=gap.from_offset,
                to_offset=gap.to_offset,
            ),
            window_start_ms=window_start_ms(moment_ms),
            window_from=window_from,
            at_ms=now_ms,
            payload=b"",
        )
        try:
            self._producer.send(quarantine_topic(name.topic), record.to_json(), key=record.key(), timestamp_ms=now_ms)
        except ClientError as error:
            log.error("quarantine_not_written", topic=name.topic, partition=name.partition, error=str(error))
            raise
