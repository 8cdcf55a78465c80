"""Send records: `send` puts them into a bounded buffer and never touches the network; one thread sends and retries in order.

A lost record is always reported. Either `send` refuses it (`BufferFull`, `RecordTooLarge`), or it is given up and reported to
`on_delivery` and by the next `flush`. With `idempotent`, no acknowledged record is stored twice, through kills and restarts of
the broker.
"""

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_library_logger
from ...wire.batch.compression import Codec
from ..connection.cluster import Cluster
from ..errors import (
    BufferFull,
    ClientError,
    DeliveryFailed,
    FlushTimedOut,
    InvalidRecord,
    ProducerClosed,
    ProducerForked,
    ProducerReentered,
    RecordTooLarge,
)
from .accumulator import Accumulator, Partitioner
from .delivery import Delivery
from .event_throttle import EventThrottle
from .identity import ProducerIdentity
from .partitioner import partition_for_key
from .pending import PendingBatch, record_size_bytes
from .sender import Sender

log = get_library_logger(__name__)

_lanes = itertools.count()
JOIN_MS = 200
"""How long `close` waits for a thread that it gave up: it may be in an unanswered request, and is then abandoned."""
_LONGEST_MS = 1 << 62
"""No timestamp is farther from 1970: a delta of two must fit 64 bits."""


class Admission(Protocol):
    """Decides, under the producer's lock, into which windows records may go (`sdk.direct.promises`)."""

    def admit(self, timestamp_ms: int, max_block_ms: int, /) -> bool:
        """Return whether a record of this time is promised to be reported of. May wait on the lock, and raise ClientError."""
        ...

    def is_promised(self, window: int, /) -> bool: ...

    def took_unpromised(self) -> None: ...


class Producer:
    """Sends records to any topics of one cluster; safe to use from many threads.

    With `window_ms`, all records of a batch are in one window, so the batch can be counted by its header alone. A record without
    a given partition goes where its key says (as with Kafka's default partitioner). Without a key, each batch goes to a random
    partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        idempotent: bool = True,
        codec: Codec = Codec.NONE,
        linger_ms: int = 20,
        batch_bytes: int = 512 << 10,
        buffer_bytes: int = 32 << 20,
        max_block_ms: int = 60_000,
        delivery_timeout_ms: int = 120_000,
        window_ms: int | None = None,
        acks: int = -1,
        partitioner: Partitioner = partition_for_key,
        on_delivery: Callable[[Delivery], None] | None = None,
        is_held: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Sends no request before the first `send`. With `is_held`, sends no record before `release`."""
        self.cluster = cluster
        self.buffer_bytes = buffer_bytes
        self.max_block_ms = max_block_ms
        self._clock = clock or SystemClock()
        self._on_delivery = on_delivery
        lane = f"produce-{next(_lanes)}"
        self.mutex = threading.RLock()
        self._lock = threading.Condition(self.mutex)
        self.is_owned: Callable[[], bool] = self.mutex._is_owned  # type: ignore[attr-defined]
        self.accumulator = Accumulator(batch_bytes=batch_bytes, linger_ms=linger_ms, window_ms=window_ms, partitioner=partitioner)
        self.admission: Admission | None = None
        """None: every record may come. Set before the first `send`."""
        self._identity = ProducerIdentity(cluster) if idempotent else None
        self._sender = Sender(
            cluster,
            self.accumulator,
            self._lock,
            lane=lane,
            codec=codec,
            identity=self._identity,
            delivery_timeout_ms=delivery_timeout_ms,
            clock=self._clock,
            on_done=self._done,
            acks=acks,
        )
        self._sender.is_held = is_held
        self._thread: threading.Thread | None = None
        self._process_id = os.getpid()
        self._blocked: list[tuple[str, int]] = []
        """(Topic, timestamp) of the records that wait for room: one for each waiting thread."""
        self._given_up = 0
        self._first_failure: ClientError | None = None
        self._is_closed = False
        self._is_running = self._has_ended = False
        self._throttle = EventThrottle()

    @property
    def producer_id(self) -> int:
        """Return the current producer id; -1 before the first batch was sent, and if the producer is not idempotent."""
        present = self._identity.present if self._identity is not None else None
        return -1 if present is None else present[0]

    @property
    def producer_ids(self) -> tuple[int, ...]:
        """Return every producer id that this producer's records may carry, oldest first."""
        return tuple(number for number, _ in self._identity.ids) if self._identity is not None else ()

    @property
    def held_records(self) -> int:
        """Return the number of records that are neither acknowledged nor given up."""
        with self._lock:
            return self.accumulator.held_records()

    def first_window_ms(self, topic: str) -> int | None:
        """Return the start of the topic's first window that has records held, or waiting for room; None if none has."""
        with self._lock:
            first = self.accumulator.first_window(topic)
            blocked = [timestamp_ms for name, timestamp_ms in self._blocked if name == topic]
        window_ms = self.accumulator.window_ms
        if window_ms is None:
            return None
        return min((*(at - at % window_ms for at in blocked), *(() if first is None else (first * window_ms,))), default=None)

    def windows_under_way(self, topic: str) -> Counter[int]:
        """Return the numbers of the topic's windows that have records held or waiting for room, each with how many. The caller
        holds `mutex`.
        """
        found = self.accumulator.windows_under_way(topic)
        window_ms = self.accumulator.window_ms
        if window_ms is not None:
            found.update(timestamp_ms // window_ms for name, timestamp_ms in self._blocked if name == topic)
        return found

    def identify(self, timeout_ms: int = 60_000) -> int:
        """Return the producer id of the first batches, requesting it from the cluster; -1 if not idempotent.

        Retriable failures are retried for `timeout_ms`; then the last of them is raised.
        """
        if self._identity is None:
            return -1
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while not self._identity.ensure(now_ms := self._clock.monotonic_ms()):
            if now_ms >= deadline_ms and self._identity.last_error is not None:
                raise self._identity.last_error
            time.sleep(0.02)
        return self.producer_id

    def release(self) -> None:
        """Start to send, if the producer was held."""
        self._sender.is_held = False
        self._sender.wake.set()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int,
        headers: Sequence[tuple[str, bytes | None]] = (),
        max_block_ms: int | None = None,
    ) -> None:
        """Take a record; `timestamp_ms` is its event time. Hot: once per record.

        Raises `BufferFull` if there was no room for `max_block_ms` (default: the producer's own), `RecordTooLarge`,
        `InvalidRecord`, `ProducerClosed`, `ProducerForked`, `ProducerReentered`. After an error the record was not accepted.
        """
        size_bytes = record_size_bytes(key, value, headers)
        if size_bytes > self.buffer_bytes:
            raise RecordTooLarge(topic, size_bytes, self.buffer_bytes, "buffer_bytes")
        _check_framable(timestamp_ms, headers)
        self._check_not_inside()
        wait_ms = self.max_block_ms if max_block_ms is None else max_block_ms
        with self.mutex:
            self._check_usable()
            is_promised = self.admission is None or self.admission.admit(timestamp_ms, wait_ms)
            self._check_usable()  # the admission may have waited
            if self.accumulator.used_bytes + size_bytes > self.buffer_bytes:
                self._wait_for_room(topic, timestamp_ms, size_bytes, wait_ms)
            now_ms = self._clock.monotonic_ms()
            record = (timestamp_ms, key, value, headers)
            is_news = self.accumulator.add(topic, partition, record, size_bytes=size_bytes, now_ms=now_ms)
            if self.admission is not None and not is_promised:
                self.admission.took_unpromised()
            if self._thread is None:
                self._start()
            is_news = is_news and self._sender.must_wake(now_ms)
        if is_news:
            self._sender.wake.set()

    def flush(self, timeout_ms: int = 60_000) -> None:
        """Return once every record sent before this call is acknowledged.

        Raises `FlushTimedOut` (sending continues), and `DeliveryFailed` if records were given up since the last flush.
        """
        self._check_not_inside()
        with self._lock:
            if os.getpid() != self._process_id:
                raise ProducerForked(self._process_id, os.getpid())
            flushed = self.accumulator.flush()
            self._sender.wake.set()
            self._lock.wait_for(lambda: not self.accumulator.held_records(flushed), timeout_ms / 1000)
            left = self.accumulator.held_records(flushed)
            given_up, first = self._given_up, self._first_failure
            self._given_up, self._first_failure = 0, None
        if left:
            raise FlushTimedOut(left, timeout_ms, self._sender.last_error)
        if first is not None:
            raise DeliveryFailed(given_up, first) from first

    def close(self, timeout_ms: int = 60_000) -> None:
        """Flush, then end the thread; give up what is not acknowledged in time. Raises as `flush`. A second call does nothing.

        It takes JOIN_MS longer at most, whatever the brokers do.
        """
        self._check_not_inside()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self.flush(timeout_ms)
        finally:
            self._end()

    def let_go(self) -> None:
        """Close inherited descriptors, in the child of a fork: what is held here is the parent's to send. Takes no lock."""
        self._is_closed = True
        self._sender.wake.let_go()

    def _end(self) -> None:
        with self._lock:
            thread, held = self._thread, self.accumulator.held_records()
        if held:
            self._sender.abandon()
        else:
            self._sender.stop()
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_MS / 1000)
            if not held and thread.is_alive():
                self._sender.abandon()
        with self._lock:
            given_up = self.accumulator.give_up_all()
            self._has_ended = True
            is_over = not self._is_running
        for batch in given_up:
            where = batch.topic if batch.partition < 0 else f"{batch.topic}-{batch.partition}"
            self._done(batch, -1, ProducerClosed(f"{batch.record_count} records for {where} were not acknowledged at close"))
        if is_over:
            self._sender.wake.close()

    def _run(self) -> None:
        try:
            self._sender.run()
        finally:
            with self._lock:
                self._is_running = False
                if self._has_ended:
                    self._sender.wake.close()

    def _start(self) -> None:
        self._is_running = True
        self._thread = threading.Thread(target=self._run, name=f"headrace-{self.cluster.client_id}-sender", daemon=True)
        self._thread.start()

    def _check_not_inside(self) -> None:
        if self.is_owned():
            raise ProducerReentered("a signal handler or a finalizer interrupted the producer on its own thread: call it later")

    def _check_usable(self) -> None:
        if self._is_closed:
            raise ProducerClosed("this producer is closed: make a new one")
        if os.getpid() != self._process_id:
            raise ProducerForked(self._process_id, os.getpid())

    def _wait_for_room(self, topic: str, timestamp_ms: int, size_bytes: int, max_block_ms: int) -> None:
        def has_room() -> bool:
            return self._is_closed or self.accumulator.used_bytes + size_bytes <= self.buffer_bytes

        self._sender.wake.set()
        waiting = (topic, timestamp_ms)
        self._blocked.append(waiting)
        try:
            if not self._lock.wait_for(has_room, max_block_ms / 1000):
                raise BufferFull(topic, self.buffer_bytes, max_block_ms)
        finally:
            self._blocked.remove(waiting)
        self._check_usable()

    def _log_given_up(self, batch: PendingBatch, error: ClientError) -> None:
        # If a topic is refused permanently, all its batches are given up, one after another, for the same reason.
        kind = (batch.topic, type(error), getattr(error, "code", None))
        with self._lock:
            is_due = self._throttle.is_due(kind, self._clock.monotonic_ms())
            more = self._throttle.left_out(kind) if is_due else {}
        if is_due:
            count = batch.record_count
            log.warning("batch_given_up", topic=batch.topic, partition=batch.partition, records=count, reason=str(error), **more)

    def _done(self, batch: PendingBatch, base_offset: int, error: ClientError | None) -> None:
        """Report the end of a batch to `on_delivery`, then free its room in the buffer."""
        if self._has_ended and threading.current_thread() is self._thread:
            return  # `close` did not wait for this thread, and has reported the end of every batch
        count = batch.record_count
        if error is not None and not isinstance(error, ProducerClosed):  # `close` raises that
            self._log_given_up(batch, error)
        if self._on_delivery is not None:
            end, numbers = batch.ended(is_acknowledged=error is None)
            delivery = Delivery(
                end=end,
                numbers=numbers,
                topic=batch.topic,
                partition=batch.partition,
                base_offset=base_offset,
                record_count=count,
                first_timestamp_ms=batch.first_timestamp_ms,
                max_timestamp_ms=batch.max_timestamp_ms,
                error=error,
            )
            try:
                self._on_delivery(delivery)
            except Exception:
                log.error("on_delivery_failed", topic=batch.topic, partition=batch.partition, exc_info=True)
        with self._lock:
            self.accumulator.ended(batch)
            if error is not None:
                self._given_up += count
                self._first_failure = self._first_failure or error
            self._lock.notify_all()


def _check_framable(timestamp_ms: int, headers: Sequence[tuple[str, bytes | None]]) -> None:
    if not -_LONGEST_MS < timestamp_ms < _LONGEST_MS:
        raise InvalidRecord(f"a record's timestamp is {timestamp_ms}: give milliseconds since 1970")
    for name, _ in headers:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise InvalidRecord(f"a header is named {name!r}, which UTF-8 cannot hold: give it another name") from error
