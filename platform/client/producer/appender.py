"""`Producer.send` for the values of one topic that all begin alike: the hot path of a logger.

A record without a key that fits the topic's open batch costs one lock that nothing waits for long under, and one framing. It
wakes no thread, reads no clock and counts nothing: batches are counted. Everything else goes through `Producer.send`.
"""

from ..errors import ProducerReentered
from .framing import frame_record
from .pending import RECORD_OVERHEAD_BYTES, PendingBatch
from .producer import Producer


class TopicAppender:
    """Appends to one topic of a producer that has windows; from any thread."""

    def __init__(self, producer: Producer, topic: str, prefix: bytes = b"") -> None:
        """`prefix`: the first bytes of every value (a schema id's envelope)."""
        self._producer = producer
        self._topic = topic
        self._prefix = prefix
        self._mutex = producer.mutex
        self._is_owned = producer.is_owned
        self._accumulator = producer.accumulator
        self._batch_bytes = self._accumulator.batch_bytes
        self._buffer_bytes = producer.buffer_bytes
        self._overhead_bytes = RECORD_OVERHEAD_BYTES + len(prefix)
        self._window_ms = self._accumulator.window_ms
        self._batch: PendingBatch | None = None

    def append(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> None:
        """Take a record. Raises as `Producer.send`. Hot: once per event."""
        if self._is_owned():
            raise ProducerReentered("a signal handler or a finalizer interrupted the producer on its own thread: send it later")
        if key is None:
            with self._mutex:
                batch = self._batch
                if batch is not None and batch.is_open and timestamp_ms // self._window_ms == batch.window:  # type: ignore[operator]
                    size_bytes = len(body) + self._overhead_bytes
                    batch_bytes = batch.size_bytes + size_bytes
                    used_bytes = self._accumulator.used_bytes + size_bytes
                    if batch_bytes <= self._batch_bytes and used_bytes <= self._buffer_bytes:
                        if timestamp_ms > batch.max_timestamp_ms:
                            batch.max_timestamp_ms = timestamp_ms
                        elif timestamp_ms < batch.first_timestamp_ms:
                            batch.first_timestamp_ms = timestamp_ms
                        frames = batch.frames
                        # What interrupts this thread (KeyboardInterrupt, say) finds the record whole in the batch, or not there.
                        frames.append(frame_record(timestamp_ms - batch.base_ms, len(frames), None, self._prefix, body))
                        batch.size_bytes = batch_bytes
                        self._accumulator.used_bytes = used_bytes
                        return
        self._producer.send(self._topic, self._prefix + body, key=key, timestamp_ms=timestamp_ms, max_block_ms=max_block_ms)
        if key is None:
            with self._mutex:
                batch = self._accumulator.open_batch(self._topic)
                admission = self._producer.admission
                if batch is not None and admission is not None and not admission.is_promised(batch.window or 0):
                    batch = None  # each of its events is to be counted, or refused, while their window is not acknowledged
                self._batch = batch
