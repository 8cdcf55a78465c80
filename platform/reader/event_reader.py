"""`EventReader`: the front door for applications that read events.

    reader = EventReader("clicks", Click, group="fraud", bootstrap="localhost:9092", registry_url="http://localhost:8081",
                         application="fraud-service")
    reader.run(handle)

At least once, in order within a partition. What is done is reported to the audit as tier `consumer:<group>`.
"""

import os
import re
import signal
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from ..audit.model.tiers import CONSUMER, GROUP_NAME
from ..client.connection.cluster import Cluster
from ..client.fetch.fetched import TopicPartition
from ..runtime.lifecycle import StopSignal
from ..schema_registry.client.cache_folder import DEFAULT, Folder
from .async_reading import AsyncHandler, AsyncReading
from .batches import BatchedRecords, OwnPositions, Store
from .errors import ReaderMisused
from .handling import HandledRecords, Handler, OnError, Stop
from .handoff import Handoff
from .iterating import HoldsNothing, InHand
from .loop_settings import LoopSettings
from .positions.protocol import Positions
from .processor import Processor
from .record import EventRecord
from .statistics import ReaderStatistics, log_end, statistics_of
from .steered_loop import SteeredLoop
from .steering import Lag, Steering

if TYPE_CHECKING:
    from ..client.deduplication import Deduplicator

E = TypeVar("E")

MOST_THREADS = 64
MOST_CONCURRENT = 1_000
MOST_RECORDS = 100_000
"""In one batch."""
_JOIN_EVERY_S = 0.2


class EventReader(Generic[E]):
    """One process's part of a group. Use it once: `run`, or `with` and iterate."""

    def __init__(
        self,
        topics: str | Sequence[str] | Mapping[str, type[E]],
        event_class: type[E] | None = None,
        *,
        group: str,
        bootstrap: str,
        registry_url: str,
        application: str | None = None,
        zookeeper: str | None = None,
        audit: bool = True,
        audit_bootstrap: str | None = None,
        cluster: str = "live",
        begin_at: str = "earliest",
        session_timeout_ms: int = 10_000,
        max_handle_ms: int = 300_000,
        deduplicate: "Deduplicator | None" = None,
        flush_every_ms: int = 1_000,
        queue_bytes: int = 16 << 20,
        schema_cache: Folder = DEFAULT,
        status_file: Path | None = None,
    ) -> None:
        """Only stores its arguments; neither the topics nor a broker need to be there yet.

        `topics`: one, or several, or each with the class of its events. `event_class`: the class of all of them; without a class
        events are dicts. `zookeeper`: `host:port[/chroot]` for a group of the paper's kind; without it the group is one of
        Kafka's protocol. `audit=False`: nothing is reported. `audit_bootstrap`: where the audit's topic is, if not on the cluster
        that is read. `begin_at`: where a partition begins of which the group has no offset, earliest or latest. `max_handle_ms`:
        a member whose handler takes longer is reported as stalled and leaves the group until the handler is back; what it handled
        meanwhile is read again. `deduplicate`: records that it knows as done are left out; you close it. `flush_every_ms`: how
        often what is done is reported and committed. Raises ReaderMisused.
        """
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if isinstance(topics, Mapping):
            if event_class is not None:
                raise ReaderMisused("each topic is named with its class: leave out event_class")
            classes: dict[str, type] = dict(topics)
        else:
            classes = {} if event_class is None else dict.fromkeys(names, event_class)
        if not names:
            raise ReaderMisused(f"group {group!r} reads no topic: name at least one")
        if begin_at not in ("earliest", "latest"):
            raise ReaderMisused(f"begin_at={begin_at!r}: give 'earliest' or 'latest'")
        if audit and not re.fullmatch(GROUP_NAME, group):
            raise ReaderMisused(
                f"the group {group[:60]!r}: the audit knows readers by groups of at most 200 letters (a to z), digits, dots, _ "
                "and -: give another group, or audit=False"
            )
        self._settings = LoopSettings(
            topics=names,
            group=group,
            tier=f"{CONSUMER}{group}",
            consumer_id=f"{application or group}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}",
            bootstrap=bootstrap,
            zookeeper=zookeeper,
            registry=registry_url,
            cluster=cluster,
            audit_bootstrap=(audit_bootstrap or bootstrap) if audit else None,
            cache_folder=schema_cache,
            event_classes=classes,
            status_file=status_file,
            flush_every_ms=flush_every_ms,
            most_records=1 << 62,  # nothing is held back from a handler
            most_bytes=1 << 62,
            session_timeout_ms=session_timeout_ms,
            max_handle_ms=max_handle_ms,
            leaves_when_stalled=True,
            auto_offset_reset={"earliest": "smallest", "latest": "largest"}[begin_at],
            queue_bytes=queue_bytes,
            waits_for_audit=False,
        )
        self._stop = StopSignal()
        self._deduplicate = deduplicate
        self._steering = Steering(names)
        self._in_hand: InHand | None = None
        self._async: AsyncReading | None = None
        self._is_used = False

    # ---- a handler

    def run(self, handle: Handler, *, on_error: OnError = Stop(), threads: int = 1) -> None:  # noqa: B008
        """Call `handle` with each record until SIGTERM, SIGINT or `stop`; then commit what is done and leave the group.

        A record is done when `handle` returns. `threads`: so many members of the group, each with a thread of its own, share the
        partitions: `handle` is called by them at the same time. Raises HandlerFailed (on_error=Stop()), QuarantineLost and a
        broker's permanent refusal; then nothing past the failed record is committed in its partition.
        """
        self._work([HandledRecords(handle, on_error, self._stop) for _ in range(self._checked(threads))])

    # ---- a store

    def run_batches(
        self,
        store: Store,
        *,
        positions: Positions | None = None,
        max_records: int = 1_000,
        max_wait_ms: int = 200,
        on_error: OnError = Stop(),  # noqa: B008
        threads: int = 1,
    ) -> None:
        """Call `store(batch)` with lists of records, as `run` calls a handler: at least once for each record.

        With `positions` (`SqlitePositions`, `PostgresPositions`) call `store(batch, cursor)` in a transaction of that database,
        move the partitions' positions in it and commit it: what `store` writes through the cursor is there exactly once. A member
        whose partition another one has taken over cannot commit. The positions count, not the group's offsets.

        A batch is stored when it has `max_records` records or `queue_bytes` bytes, at the latest `max_wait_ms` after its first
        one. If `store` raises: Stop ends the reader with BatchFailed, and Quarantine calls it again, at last record by record, so
        that only those that fail by themselves go to quarantine. A database that is away is waited for. Raises as `run`, and
        TransactionEnded (`store` must not commit) and LogBeganAnew.
        """
        if not 1 <= max_records <= MOST_RECORDS:
            raise ReaderMisused(f"max_records={max_records}: 1 to {MOST_RECORDS}, all of which are held in memory")
        if max_wait_ms < 1:
            raise ReaderMisused(f"max_wait_ms={max_wait_ms}: at least 1; a batch of one record is max_records=1")
        if self._deduplicate is not None:
            raise ReaderMisused("deduplicate= is for run and for iterating; positions= stores a batch exactly once")
        self._steering.may_seek = positions is None
        one = self._settings
        self._settings = replace(
            one,
            most_bytes=one.queue_bytes,
            poll_ms=min(one.poll_ms, max_wait_ms),
            flush_every_ms=max(one.flush_every_ms, max_wait_ms),  # a flush stores what there is of a batch
        )

        def own() -> OwnPositions | None:
            return None if positions is None else OwnPositions(positions, one.group, Cluster(one.bootstrap))

        self._work(
            [
                BatchedRecords(store, on_error, self._stop, max_records=max_records, max_wait_ms=max_wait_ms, positions=own())
                for _ in range(self._checked(threads))
            ]
        )

    def _checked(self, threads: int) -> int:
        if not 1 <= threads <= MOST_THREADS:
            raise ReaderMisused(f"threads={threads}: 1 to {MOST_THREADS} in one process; start another one for more")
        return threads

    def _work(self, processors: Sequence[Processor]) -> None:
        """Run a member for each processor until the stop. Raises the first error of any of them, when all have ended."""
        self._use()
        loops = self._steering.loops = [self._loop(processor, number) for number, processor in enumerate(processors)]
        errors: list[BaseException] = []

        def run(loop: SteeredLoop) -> None:
            try:
                loop.run(self._stop)
            except BaseException as error:
                errors.append(error)
                self._stop.set()

        with _Signals(self._stop):
            if len(loops) == 1:
                run(loops[0])
            else:
                threads = [threading.Thread(target=run, args=(loop,), daemon=True) for loop in loops]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    while thread.is_alive():  # a join without a timeout would keep signals from this thread
                        thread.join(_JOIN_EVERY_S)
        self._log_end()
        if errors:
            raise errors[0]

    # ---- iterating

    def __enter__(self) -> Self:
        self._use()
        self._in_hand = InHand(lambda processor: self._loop(processor, 0), self._stop)
        self._steering.loops = [self._in_hand.loop]
        return self

    def __iter__(self) -> Iterator[EventRecord]:
        """Return the records. A record is done when the next one is asked for, or when `with` is left without an exception.

        It ends at `stop`. Raises as `run` does, except HandlerFailed: an exception in the body of a `for` never reaches it.
        """
        if self._in_hand is None:
            raise ReaderMisused("iterate inside `with reader:`, so that the reader knows when the last record is done")
        return self._in_hand

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._in_hand is not None
        self._in_hand.close(is_done=error is None)
        self._log_end()

    # ---- asyncio

    async def run_async(
        self,
        handle: AsyncHandler,
        *,
        concurrency: int = 1,
        on_error: OnError = Stop(),  # noqa: B008
    ) -> None:
        """Await `handle` for each record, up to `concurrency` of them at a time, until SIGTERM, SIGINT, `stop` or a cancellation.

        A record is done when `handle` returns, and what is committed is the contiguous end: nothing past the first record of a
        partition that is not done. With a concurrency above 1 records of a partition may be done in another order than theirs.
        Cancelled, it commits what is done and leaves the group before it raises CancelledError. Raises as `run`.
        """
        if not 1 <= concurrency <= MOST_CONCURRENT:
            raise ReaderMisused(f"concurrency={concurrency}: 1 to {MOST_CONCURRENT}")
        reading = self._read_async()
        with _Signals(self._stop):
            try:
                await reading.run(handle, on_error, concurrency)
            finally:
                self._log_end()

    async def __aenter__(self) -> Self:
        self._async = self._read_async()
        return self

    def __aiter__(self) -> AsyncIterator[EventRecord]:
        """Return the records. A record is done when the next one is asked for, or when `async with` is left without an exception;
        a cancellation is one. It ends at `stop`. Raises as `run` does, except HandlerFailed.
        """
        if self._async is None:
            raise ReaderMisused("iterate inside `async with reader:`, so that the reader knows when the last record is done")
        return _Records(self._async)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._async is not None
        try:
            await self._async.leave(is_done=error is None)
        finally:
            self._log_end()

    def _read_async(self) -> AsyncReading:
        self._use()
        handoff = Handoff(most_bytes=self._settings.queue_bytes)
        loop = self._loop(HoldsNothing(), 0, handoff)
        self._steering.loops = [loop]
        reading = AsyncReading(loop, handoff, self._stop)
        reading.start()
        return reading

    # ---- steering: each takes effect between two records, and may be called from any thread

    def pause(self, topic: str, partitions: Collection[int] | None = None) -> None:
        """Read no more of these partitions (None: of the topic) until `resume`; the other ones continue. It holds for this
        process, also over handovers. Raises ReaderMisused for a topic that is not read.
        """
        self._steering.pause(topic, partitions)

    def resume(self, topic: str, partitions: Collection[int] | None = None) -> None:
        """Go on with what `pause` stopped. Raises ReaderMisused."""
        self._steering.resume(topic, partitions)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at `offset`, when what is in work is done, reported and committed. The new position is committed, too.

        Forward: it is reported to the audit that what lies between was skipped. Backward: those records are handled again, unless
        `deduplicate` knows them. Raises ReaderMisused if no member of this process has the partition, and with `positions=`.
        """
        self._steering.seek(TopicPartition(topic, partition), offset)

    def seek_to_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """`seek` in each partition of the topic that this process has, to its first record at or after this event time, else to
        its end; return partition → offset. Raises ClientError.
        """
        return self._steering.seek_to_time(topic, timestamp_ms)

    def lag(self) -> dict[tuple[str, int], Lag]:
        """Return (topic, partition) → how far what was handed out is behind the end of the log, of this process's partitions.
        Asks the brokers. Raises ClientError.
        """
        return self._steering.lag()

    # ---- both

    def stop(self) -> None:
        """End `run`, or the iteration, from any thread or from a signal handler."""
        self._stop.set()

    @property
    def statistics(self) -> ReaderStatistics:
        """What this process has read so far, over all of its members."""
        return statistics_of(self._steering.loops)

    def _loop(self, processor: Processor, number: int, handoff: Handoff | None = None) -> SteeredLoop:
        settings = self._settings if number == 0 else self._settings.of_thread(number)
        return SteeredLoop(settings, processor, seen=self._deduplicate, is_paused=self._steering.is_paused, handoff=handoff)

    def _log_end(self) -> None:
        log_end(self._steering.loops, self._settings.group)

    def _use(self) -> None:
        if self._is_used:
            raise ReaderMisused("this reader was used before: make a new one")
        self._is_used = True


class _Records:
    """An iterator and no generator: a wait for the next record that was given up may be repeated, and loses none."""

    def __init__(self, reading: AsyncReading) -> None:
        self._reading = reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventRecord:
        record = await self._reading.next()
        if record is None:
            raise StopAsyncIteration
        return record


class _Signals:
    """SIGTERM and SIGINT stop the reader while it runs on the main thread; afterwards they are as they were."""

    def __init__(self, stop: StopSignal) -> None:
        self._stop = stop
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
            self._stop.install()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, cast(Any, handler))
