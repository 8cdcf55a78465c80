"""Quarantines records that a reader cannot use. Nothing after such a record is committed before its quarantine record is
acknowledged.
"""

from ..client.connection.cluster import Cluster
from ..client.consumer.stream_message import Message
from ..client.errors import DeliveryFailed
from ..client.fetch.fetched import CorruptRange, TopicPartition
from ..client.producer.producer import Producer
from ..client.quarantine import corrupt_range, send_quarantined, unusable
from ..errors import HeadraceError
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from ..wire.quarantine_record import LogOrigin, QuarantineRecord
from .decoding.event_decoder import Undecodable

log = get_logger(__name__)


class QuarantineLost(HeadraceError):
    """A quarantine record was given up, so nothing after it may be committed. After a restart the reader meets it again."""


class UnusableRecords:
    """The records and ranges that one reader quarantined."""

    def __init__(self, live: Cluster, *, cluster: str, clock: Clock) -> None:
        """`cluster` is the cluster's name in the origins."""
        self._producer = Producer(live)
        self._cluster = cluster
        self._clock = clock
        self._lost: DeliveryFailed | None = None
        self.previous_ms: int | None = None
        """Event time of the last counted record. It dates a range, which has no time of its own."""
        self.count = 0

    def put_record(self, message: Message, fault: Undecodable) -> None:
        """Quarantine a record that holds no event."""
        origin = LogOrigin(cluster=self._cluster, topic=message.topic, partition=message.partition, offset=message.offset)
        self._put(
            origin,
            unusable(
                "consumer",
                origin,
                fault.code,
                str(fault),
                timestamp_ms=message.timestamp_ms,
                payload=message.value,
                now_ms=self._clock.now_ms(),
            ),
        )

    def put_range(self, name: TopicPartition, bad: CorruptRange) -> None:
        """Quarantine a range that cannot be read.

        The number of its records is unknown, so none is counted: the audit shows them as missing from this tier on.
        """
        origin = LogOrigin(
            cluster=self._cluster, topic=name.topic, partition=name.partition, offset=bad.from_offset, to_offset=bad.to_offset
        )
        now_ms = self._clock.now_ms()
        self._put(origin, corrupt_range("consumer", origin, bad.reason, previous_ms=self.previous_ms, now_ms=now_ms))

    def _put(self, origin: LogOrigin, record: QuarantineRecord) -> None:
        self.count += 1
        log.warning("record_quarantined", code=record.code, topic=origin.topic, partition=origin.partition, offset=origin.offset)
        send_quarantined(self._producer, record)

    def flush(self, timeout_ms: int) -> None:
        """Return when every record is acknowledged.

        Raises ClientError if the caller may flush again, and QuarantineLost once a record was given up. Every later flush raises
        QuarantineLost too, so that the last flush before the end cannot lead to a commit.
        """
        if self._lost is None:
            try:
                self._producer.flush(timeout_ms)
            except DeliveryFailed as error:
                self._lost = error
        if self._lost is not None:
            raise QuarantineLost(f"{self._lost}: ending without a commit past it; started again, it is met again")

    def close(self, timeout_ms: int) -> None:
        self._producer.close(timeout_ms)
