"""Where the service puts what it cannot use; and that nothing is committed past it before it is there."""

from ..audit.model.windows import dated, window_start_ms
from ..client.cluster import Cluster
from ..client.errors import DeliveryFailed
from ..client.fetched import CorruptRange, TopicPartition
from ..client.producer import Producer
from ..client.stream_message import Message
from ..errors import HeadraceError
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from ..wire.quarantine_record import LogOrigin, QuarantineRecord, WindowFrom, head_of, quarantine_topic
from .request_rate_decoding import Undecodable

log = get_logger(__name__)


class QuarantineLost(HeadraceError):
    """A quarantine record was given up: nothing may be committed past it. Ended and started again, the service meets it again."""


class Quarantine:
    """The quarantine of one process of the service."""

    def __init__(self, live: Cluster, *, cluster: str, clock: Clock) -> None:
        """`cluster` is the name that origins carry."""
        self._producer = Producer(live)
        self._cluster = cluster
        self._clock = clock
        self._lost: DeliveryFailed | None = None
        self.previous_ms: int | None = None
        """Event time of the last record that was taken: what has no time of its own is counted by it."""
        self.count = 0

    def put_record(self, message: Message, fault: Undecodable) -> None:
        """Put a record aside that holds no event."""
        origin = LogOrigin(cluster=self._cluster, topic=message.topic, partition=message.partition, offset=message.offset)
        self._put(origin, fault.code, str(fault), message.timestamp_ms, "record", message.value or b"")

    def put_range(self, name: TopicPartition, bad: CorruptRange) -> None:
        """Note a range that cannot be read.

        How many records were there nobody can say, so none is counted: the books show them as missing from this tier on.
        """
        origin = LogOrigin(
            cluster=self._cluster, topic=name.topic, partition=name.partition, offset=bad.from_offset, to_offset=bad.to_offset
        )
        at_ms, window_from = dated(None, previous_ms=self.previous_ms, clock_ms=self._clock.now_ms())
        self._put(origin, "corrupt_batch", bad.reason, at_ms, window_from, b"")

    def _put(self, origin: LogOrigin, code: str, reason: str, timestamp_ms: int, window_from: WindowFrom, payload: bytes) -> None:
        record = QuarantineRecord(
            topic=origin.topic,
            stage="consumer",
            code=code,
            reason=reason,
            origin=origin,
            window_start_ms=window_start_ms(timestamp_ms),
            window_from=window_from,
            at_ms=self._clock.now_ms(),
            payload=head_of(payload),
        )
        self.count += 1
        log.warning("record_quarantined", code=code, topic=origin.topic, partition=origin.partition, offset=origin.offset)
        self._producer.send(quarantine_topic(origin.topic), record.to_json(), key=record.key(), timestamp_ms=record.at_ms)

    def flush(self, timeout_ms: int) -> None:
        """Return once all that was put is acknowledged.

        Raises ClientError (ask again), and from the first record that was given up on, for good, QuarantineLost: the flush at
        the end must not let a commit past it either.
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
