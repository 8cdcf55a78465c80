"""Holds the state: one thread reads the schemas topic into a `RegistryState`; writes are appended to the topic and read back.

The topic has one partition and never expires. Each record is flushed before it is acknowledged, so an assigned id is kept. While
the broker is away, the state can still be read and writes fail in bounded time; everything continues when the broker is back. A
damaged topic (records lost, unreadable, begun late) is not written to: an id could get a second meaning.
"""

import threading
import uuid
from collections.abc import Sequence

from ...client.admin import CLUSTERS_OWN, create_topic
from ...client.connection.cluster import Cluster
from ...client.errors import ClientError, DeliveryFailed, DeliveryTimedOut, FlushTimedOut, OffsetOutOfRange
from ...client.fetch.fetched import FetchedPartition, TopicPartition
from ...client.fetch.fetcher import Fetcher
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_logger
from ...wire.batch.record_batch import Record, iter_records
from ...wire.errors import CorruptBatch
from . import refusals
from .cluster_identity import cluster_id
from .records import NOOP, Noop, NotARegistryRecord, RegistryRecord, decode, encode
from .state import RegistryState

log = get_logger(__name__)

TOPIC_CONFIG = {"retention.ms": "-1", "cleanup.policy": "delete", "flush.messages": "1"}
EPOCH_HEADER = "headrace.epoch"
"""Record header with the leader's epoch, in decimal. A record behind one of a higher epoch is of a deposed leader: refused."""
WRITE_HEADER = "headrace.write"
"""Record header with a token: by it the reader recognises a write of this process and notifies its writer."""


class _Write:
    """A write that waits to be read back."""

    def __init__(self, record_count: int) -> None:
        self.left = record_count
        self.refusal: str | None = None


class TopicStore:
    """The state and its topic. `start` returns at once; `is_caught_up` shows when the state is complete."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        request_timeout_ms: int = 5_000,
        write_timeout_ms: int = 8_000,
        is_read_only: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`is_read_only`: the topic is waited for and never made; nothing is written."""
        self.state = RegistryState()
        self.state_lock = threading.RLock()
        self.topic = topic
        self.bootstrap = bootstrap
        self._writing = threading.Lock()
        self._highest_epoch = 0
        self._is_read_only = is_read_only
        self._partition = TopicPartition(topic, 0)
        self._request_timeout_ms = request_timeout_ms
        self._write_timeout_ms = write_timeout_ms
        self._clock = clock or SystemClock()
        self._moved = threading.Condition(self.state_lock)
        self._next_offset = -1
        """The offset where the reader continues; -1 before it has begun."""
        self._is_caught_up = False
        self._trouble: str | None = "it has not been read yet"
        self._damage: str | None = None
        self._cluster_id: str | None = None
        self._writes: dict[bytes, _Write] = {}
        self._is_stopping = threading.Event()
        self._cluster = Cluster(bootstrap, client_id="headrace-registry", request_timeout_ms=request_timeout_ms)
        self._reader = Fetcher(self._cluster, max_wait_ms=500, hides_aborted=True)
        self._producer: Producer | None = None
        self._thread = threading.Thread(target=self._run, name="schemas-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the reader and the producer."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2 * self._request_timeout_ms / 1000)
        self._drop_producer()
        self._cluster.close()

    @property
    def is_caught_up(self) -> bool:
        """Return whether the state has once held the whole topic."""
        return self._is_caught_up

    @property
    def trouble(self) -> str | None:
        """Return what prevents reading or writing the topic now, or None."""
        return self._damage or self._trouble

    @property
    def damage(self) -> str | None:
        """Return what is wrong with the topic's content, which waiting does not cure, or None."""
        return self._damage

    @property
    def next_offset(self) -> int:
        return self._next_offset

    @property
    def highest_epoch(self) -> int:
        return self._highest_epoch

    def cluster_id(self) -> str:
        """Return the live cluster's own id. Raises 50001 if it was never read and the cluster does not answer."""
        if self._cluster_id is None:
            try:
                self._cluster_id = cluster_id(self._cluster)
            except HeadraceError as error:
                raise refusals.store_failed(str(error)) from error
        return self._cluster_id

    # --- for the registry ----------------------------------------------------------------------------------------------------

    def check_readable(self) -> None:
        if not self._is_caught_up:
            raise refusals.store_failed(f"{self.topic} on {self.bootstrap} is still being read ({self.trouble or 'soon done'})")

    def catch_up(self) -> None:
        """Return when the state holds everything that the topic holds now. Raises 50001 if that cannot be known."""
        if self._damage is not None:
            raise refusals.store_failed(self._damage)
        self.check_readable()
        read_before = self._next_offset
        try:
            end = log_offsets(self._cluster, {self._partition: LATEST})[self._partition]
        except HeadraceError as error:
            raise refusals.store_failed(str(error)) from error
        with self._moved:
            if read_before > end:
                # The log is shorter than what was read from it, and the reader's long poll has not noticed yet.
                raise refusals.store_failed(
                    f"{self.topic} ends at {end}, offset {read_before} was read before: records were lost"
                )
            if not self._moved.wait_for(lambda: self._next_offset >= end, self._request_timeout_ms / 1000):
                raise refusals.store_failed(f"the reader of {self.topic} is at {self._next_offset}, before its end {end}")

    def write(self, records: Sequence[RegistryRecord | Noop], epoch: int | None = None) -> str | None:
        """Return None if every record was read back and applied, else why one was refused. One write at a time.

        `epoch`: the leader's, under which the write was decided. Raises 50001 if nothing was written, 50002 if that is unknown.
        """
        with self._writing:
            return self._written(records, epoch)

    def _written(self, records: Sequence[RegistryRecord | Noop], epoch: int | None) -> str | None:
        token = uuid.uuid4().bytes
        waiting = _Write(len(records))
        with self._moved:
            self._writes[token] = waiting
        try:
            self._append(records, token, epoch)
            with self._moved:
                if not self._moved.wait_for(lambda: waiting.left <= 0, self._request_timeout_ms / 1000):
                    raise refusals.store_timed_out(
                        f"the write to {self.topic} was not read back in {self._request_timeout_ms} ms"
                    )
            return waiting.refusal
        finally:
            with self._moved:
                del self._writes[token]

    def mark_epoch(self, epoch: int) -> None:
        """Write the epoch to the topic and return when it was read back. Raises 50001, 50002, also for one that is too old."""
        refusal = self.write([NOOP], epoch)
        if refusal is not None:
            raise refusals.store_failed(refusal)

    def _append(self, records: Sequence[RegistryRecord | Noop], token: bytes, epoch: int | None) -> None:
        if self._producer is None:
            self._producer = Producer(
                self._cluster,
                linger_ms=0,
                buffer_bytes=16 << 20,
                max_block_ms=self._write_timeout_ms,
                # Shorter than the flush's wait: when flush returns, the outcome of each record is known.
                delivery_timeout_ms=self._write_timeout_ms,
            )
        try:
            for record in records:
                key, value = encode(record)
                headers = ((WRITE_HEADER, token), *([] if epoch is None else [(EPOCH_HEADER, str(epoch).encode())]))
                self._producer.send(self.topic, value, key=key, partition=0, timestamp_ms=self._clock.now_ms(), headers=headers)
            self._producer.flush(self._write_timeout_ms + self._request_timeout_ms)
        except DeliveryFailed as error:
            if isinstance(error.first, DeliveryTimedOut):
                raise refusals.store_timed_out(f"the write to {self.topic} was not acknowledged: {error.first}") from error
            raise refusals.store_failed(str(error.first)) from error
        except FlushTimedOut as error:
            self._drop_producer()
            raise refusals.store_timed_out(f"the write to {self.topic} was not acknowledged: {error}") from error
        except ClientError as error:
            self._drop_producer()
            raise refusals.store_failed(str(error)) from error

    def _drop_producer(self) -> None:
        """Drop the producer with what it still holds; the next write makes a new one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(timeout_ms=1_000)
            except ClientError as error:
                log.warning("producer_closed_with_loss", reason=str(error))

    # --- the reader's thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        backoff = Backoff(first_ms=100, longest_ms=2_000)
        attempt = 0
        while not self._is_stopping.is_set():
            try:
                if self._next_offset < 0:
                    self._begin()
                self._follow()
                self._note_trouble(None)
                attempt = 0
                continue
            except OffsetOutOfRange as error:
                self._note_damage(f"{self.topic} lost records that were read from it: {error}")
            except HeadraceError as error:
                self._note_trouble(str(error))
            except Exception as error:
                # A fault of ours must not end the thread: the registry would answer from an old state without noticing
                # it.
                log.error("schemas_reader_failed", topic=self.topic, exc_info=True)
                self._note_trouble(f"our own fault: {error!r}")
            self._is_stopping.wait(backoff.wait_ms(attempt) / 1000)
            attempt += 1

    def _begin(self) -> None:
        if not self._is_read_only:
            create_topic(
                self._cluster,
                self.topic,
                1,
                TOPIC_CONFIG,
                replication_factor=CLUSTERS_OWN,
                timeout_ms=self._request_timeout_ms,
            )
        partitions = self._cluster.partitions(self.topic)
        if len(partitions) != 1:
            self._note_damage(
                f"{self.topic} has {len(partitions)} partitions, their order among each other is not known: it must have 1"
            )
        start = log_offsets(self._cluster, {self._partition: EARLIEST})[self._partition]
        if start > 0:
            self._note_damage(f"{self.topic} begins at offset {start}: its oldest schemas have expired; it needs retention.ms=-1")
        with self._moved:
            self._next_offset = start

    def _follow(self) -> None:
        fetched = self._reader.fetch({self._partition: self._next_offset})[0]
        if fetched.error is not None:
            raise fetched.error
        for bad in fetched.corrupt:
            self._note_damage(f"{self.topic} offsets {bad.from_offset} to {bad.to_offset} cannot be read: {bad.reason}")
        with self._moved:
            self._take_in(fetched)
            self._next_offset = max(self._next_offset, fetched.next_offset)
            if not self._is_caught_up and self._next_offset >= fetched.high_watermark:
                self._is_caught_up = True
                log.info("schemas_read", topic=self.topic, next_offset=self._next_offset, state=self.state.counts())
            self._moved.notify_all()

    def _take_in(self, fetched: FetchedPartition) -> None:
        for header, batch in fetched.batches:
            try:
                for record in iter_records(batch):
                    if record.offset >= self._next_offset:
                        self._apply(record)
            except CorruptBatch as error:
                self._note_damage(f"{self.topic} at offset {header.base_offset} cannot be read: {error}")

    def _apply(self, record: Record) -> None:
        try:
            decoded = decode(record.key, record.value)
        except NotARegistryRecord as error:
            log.warning("schemas_record_ignored", topic=self.topic, offset=record.offset, reason=str(error))
            return
        refusal = self._deposed(record)
        if refusal is None and decoded is not None:
            refusal = self.state.apply(decoded)
        if refusal is not None:
            log.warning("schemas_record_refused", topic=self.topic, offset=record.offset, reason=refusal)
        token = next((bytes(value) for name, value in record.headers if name == WRITE_HEADER and value is not None), None)
        waiting = None if token is None else self._writes.get(token)
        if waiting is not None:
            waiting.left -= 1
            waiting.refusal = waiting.refusal or refusal

    def _deposed(self, record: Record) -> str | None:
        """Return why the record is of a leader that was deposed before it; note a newer leader's epoch."""
        stamp = next((bytes(value) for name, value in record.headers if name == EPOCH_HEADER and value is not None), None)
        if stamp is None or not stamp.isdigit():
            return None
        epoch = int(stamp)
        if epoch < self._highest_epoch:
            return f"it was written under epoch {epoch}, and the leader of epoch {self._highest_epoch} had begun"
        self._highest_epoch = epoch
        return None

    def _note_trouble(self, trouble: str | None) -> None:
        if (trouble is None) != (self._trouble is None):
            if trouble is None:
                log.info("schemas_topic_reached", topic=self.topic, bootstrap=self.bootstrap)
            else:
                log.warning("schemas_topic_unreachable", topic=self.topic, bootstrap=self.bootstrap, reason=trouble)
        self._trouble = trouble

    def _note_damage(self, damage: str) -> None:
        if self._damage is None:
            log.error("schemas_topic_damaged", topic=self.topic, reason=damage)
            self._damage = damage
