"""Records that are done in batches by the application's `store`; with positions, in one transaction with them.

A batch that was tried stays as it is until it is known what became of it: stored, refused by the store, or another member's.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from ..client.fetch.fetched import TopicPartition
from ..errors import HeadraceError
from ..runtime.clock import Clock, SystemClock
from ..runtime.lifecycle import StopSignal
from .errors import BatchFailed, ReaderError
from .handling import FAILED, PAUSE, OnError, Stop
from .positions.protocol import Fenced, LogBeganAnew, Move, Position, Positions
from .positions.settling import Outcome, outcome_of
from .processor import PartitionsTaken, ProcessorAway, RefusedRecord
from .record import EventRecord

Store = Callable[..., object]
"""`store(batch)`; with positions `store(batch, cursor)`."""


class TopicIds(Protocol):
    """What is used of `client.connection.cluster.Cluster`."""

    def topic_ids(self, topics: Sequence[str], /) -> Mapping[str, str]: ...

    def close(self) -> None: ...


class OwnPositions:
    """One member's partitions in the application's database: what their rows hold. Belongs to the member's thread."""

    def __init__(self, positions: Positions, group: str, cluster: TopicIds) -> None:
        self._positions, self._group, self._cluster = positions, group, cluster
        self._held: dict[TopicPartition, Position] = {}
        self._unsettled: dict[TopicPartition, Move] = {}
        """The last transaction's, if the database did not say what became of it."""
        self._has_moved: set[TopicPartition] = set()
        """Partitions whose position was moved since they were taken over."""

    def take_over(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Fence the rows; return where each partition continues. Raises ProcessorAway."""
        try:
            topic_ids = self._cluster.topic_ids(sorted({name.topic for name in starts}))
        except HeadraceError as error:
            if not error.retriable:
                raise
            raise ProcessorAway(f"the topics' ids: {error}") from error
        self._held |= self._positions.take_over(self._group, starts, topic_ids)
        return {name: self._held[name].next_offset for name in starts}

    def behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return those of these offsets that are behind the position."""
        return {name: end for name, end in ends.items() if name in self._held and end > self._held[name].next_offset}

    def store_records(self, records: Sequence[EventRecord], work: Callable[[Any], object]) -> None:
        """Have `work` done and the positions moved behind the records in one transaction. Raises as `Positions.store`, and
        LogBeganAnew. Where reading begins below the position, the loop has decided so: the log is shorter.
        """
        below = {one.of for one in records if one.offset < self._held[one.of].next_offset} & self._has_moved
        if below:
            raise LogBeganAnew(below)
        self.store({one.of: one.message.next_offset for one in records}, work)

    def store(self, ends: Mapping[TopicPartition, int], work: Callable[[Any], object]) -> None:
        """Have `work` done and the positions moved to `ends` in one transaction. Raises as `Positions.store`."""
        moves = {name: Move(self._held[name], end) for name, end in ends.items()}
        try:
            self._positions.store(self._group, moves, work)
        except ProcessorAway:
            self._unsettled = moves
            raise
        self._moved(moves)

    @property
    def is_unsettled(self) -> bool:
        return bool(self._unsettled)

    def settle(self) -> Outcome:
        """Find out what became of the unsettled transaction. Raises ProcessorAway."""
        moves = self._unsettled
        outcome = outcome_of(moves, self._positions.read(self._group, moves))
        self._unsettled = {}
        if outcome.is_committed:
            self._moved(moves)
        return outcome

    def taken(self) -> frozenset[TopicPartition]:
        """Return the partitions that other members have taken over. Raises ProcessorAway."""
        found = self._positions.read(self._group, self._held)
        return frozenset(name for name, held in self._held.items() if found.get(name) != held)

    def end(self, partitions: Collection[TopicPartition]) -> None:
        for name in partitions:
            self._held.pop(name, None)
            self._unsettled.pop(name, None)
            self._has_moved.discard(name)

    def close(self) -> None:
        self._positions.close()
        self._cluster.close()

    def _moved(self, moves: Mapping[TopicPartition, Move]) -> None:
        self._held |= {name: Position(to, held.fence) for name, (held, to) in moves.items()}
        self._has_moved |= moves.keys()


class BatchedRecords:
    """A `Processor`: records are done when `store` returned for their batch, or the transaction with it is committed."""

    def __init__(
        self,
        store: Store,
        on_error: OnError,
        stop: StopSignal,
        *,
        max_records: int,
        max_wait_ms: int,
        positions: OwnPositions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._on_error, self._stop = store, on_error, stop
        self._max_records, self._max_wait_ms = max_records, max_wait_ms
        self._positions = positions
        self._clock = clock or SystemClock()
        self._batch: list[EventRecord] = []
        self._began_ms = 0
        """When the batch got its first record."""
        self._was_tried = False
        self._failures = 0
        self._is_single = False
        """Whether the batch failed too often, so that its records are stored one by one."""
        self._culprit: RefusedRecord | None = None
        """The batch's first record, which failed by itself. Nothing behind it is stored before quarantine has it: a position
        behind it says that it is done.
        """
        self._is_culprit_logged = False
        self._taken: set[TopicPartition] = set()
        """Partitions that others took over, which the loop does not know yet."""
        self._error: ReaderError | None = None
        """What ended it."""

    # ---- partitions

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.end(list(starts))
        return {} if self._positions is None else self._positions.take_over(starts)

    def end(self, partitions: Collection[TopicPartition]) -> None:
        self._keep(lambda name: name not in partitions)
        self._taken -= set(partitions)
        if self._positions is not None:
            self._positions.end(partitions)

    def close(self) -> None:
        if self._positions is not None:
            self._positions.close()

    # ---- records

    def take(self, record: EventRecord) -> None:
        if self._was_tried:
            raise ProcessorAway("a batch waits to be stored")
        if not self._batch:
            self._began_ms = self._clock.monotonic_ms()
        self._batch.append(record)
        if len(self._batch) >= self._max_records:
            with suppress(ProcessorAway):  # it is full then: `flush` raises it again
                self._store_batch()

    @property
    def is_full(self) -> bool:
        if self._was_tried or self._taken:
            return True
        return bool(self._batch) and self._clock.monotonic_ms() - self._began_ms >= self._max_wait_ms

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        if self._error is not None:
            raise self._error
        if self._culprit is not None and self._is_culprit_logged:
            self._drop(1)  # quarantine has it
        self._keep(positions.__contains__)
        self._store_batch()
        if self._culprit is None:
            self._move_up(positions)
        if self._taken:
            taken, self._taken = self._taken, set()
            raise PartitionsTaken(taken, "another member of the group took them over: what was to be stored is rolled back")
        if self._culprit is None:
            return []
        self._is_culprit_logged = True
        return [self._culprit]

    def _store_batch(self) -> None:
        while self._batch and self._culprit is None:
            self._attempt()

    def _attempt(self) -> None:
        """Store what is due of the batch, or note what failed. Raises ProcessorAway and BatchFailed."""
        self._settle()
        records = self._due
        if not records:
            return
        self._was_tried = True
        try:
            if self._positions is None:
                self._store(records)
            else:
                self._positions.store_records(records, lambda cursor: self._store(records, cursor))
        except ProcessorAway:
            raise
        except Fenced as error:
            self._lose(error.partitions)
        except ReaderError as error:
            self._error = error
            raise
        except Exception as error:
            taken = frozenset() if self._positions is None else self._positions.taken()
            self._lose(taken)
            if taken.isdisjoint(record.of for record in records):  # else it failed for what the new owner stored
                self._fail(records, error)
        else:
            self._drop(len(records))

    @property
    def _due(self) -> list[EventRecord]:
        return self._batch[:1] if self._is_single else list(self._batch)

    def _settle(self) -> None:
        """If an answer was lost, find out whether its transaction is committed. Raises ProcessorAway."""
        if self._positions is None or not self._positions.is_unsettled:
            return
        is_committed, taken = self._positions.settle()
        if is_committed and self._was_tried:  # the batch's, not one of `_move_up`
            self._drop(len(self._due))
        self._lose(taken)

    def _move_up(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move the positions behind records that need no storing: quarantine has or will have them."""
        if self._positions is None or self._batch:
            return
        self._settle()
        ends = self._positions.behind(positions)
        if not ends:
            return
        try:
            self._positions.store(ends, lambda cursor: None)
        except Fenced as error:
            self._lose(error.partitions)

    def _lose(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that other members took over, until the loop knows."""
        self.end(partitions)
        self._taken |= set(partitions)

    # ---- failures

    def _fail(self, records: Sequence[EventRecord], error: Exception) -> None:
        self._failures += 1
        policy = self._on_error
        if isinstance(policy, Stop):
            self._error = BatchFailed(records, error)
            raise self._error from error
        if len(records) == 1 and (self._is_single or self._failures >= policy.after):
            times = f"{self._failures} times" if self._failures > 1 else "once"
            reason = f"the store failed {times}, at last with {type(error).__name__}: {error}"
            self._culprit = RefusedRecord(records[0], reason, FAILED)
        elif self._failures >= policy.after:
            self._is_single = True
        elif self._stop.wait(PAUSE.wait_ms(self._failures - 1)):
            raise ProcessorAway("the reader stops: the batch is read again") from error

    # ---- the batch

    def _keep(self, is_kept: Callable[[TopicPartition], bool]) -> None:
        """Forget the records of other partitions."""
        if self._culprit is not None and not is_kept(self._culprit.record.of):
            self._culprit, self._is_culprit_logged = None, False
        self._batch = [record for record in self._batch if is_kept(record.of)]
        if not self._batch:
            self._reset()

    def _drop(self, count: int) -> None:
        """The batch's first records are done."""
        self._culprit, self._is_culprit_logged = None, False
        del self._batch[:count]
        if not self._batch:
            self._reset()

    def _reset(self) -> None:
        self._was_tried = self._is_single = False
        self._failures = 0
