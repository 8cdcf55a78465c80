"""Batches against a database that fails at any step, members that are killed, and partitions that others take over: each record
is stored once, or in quarantine.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.consumer.stream_message import Message
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader import BatchFailed, EventRecord, LogBeganAnew, Quarantine, Stop, TransactionEnded
from headrace.reader.batches import BatchedRecords, OwnPositions
from headrace.reader.positions.protocol import Fenced, Move, Position
from headrace.reader.processor import PartitionsTaken, ProcessorAway, RefusedRecord
from headrace.runtime.lifecycle import StopSignal

NAMES = (TopicPartition("clicks", 0), TopicPartition("clicks", 1))
LENGTH = 12
GROUP = "fraud"
MOST = 4


def record(name: TopicPartition, offset: int) -> EventRecord:
    return EventRecord(Message(*name, offset, offset + 1, 5, None, b"x", ()), 1, {"number": offset})


class Hasty(StopSignal):
    """Waits for nothing."""

    def wait(self, timeout_ms: int | None = None) -> bool:
        return self.is_set()


class Topics:
    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        return


@dataclass
class Database:
    """`Positions`, and what the application stored. `faults`: of the next transactions; the rest go well."""

    rows: dict[TopicPartition, Position] = field(default_factory=dict)
    stored: list[tuple[TopicPartition, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    """What became of each transaction."""

    def take_over(
        self, group: str, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, Position]:
        self._fault("away")
        for name, start in starts.items():
            held = self.rows.get(name, Position(start, 0))
            self.rows[name] = Position(held.next_offset, held.fence + 1)
        return {name: self.rows[name] for name in starts}

    def read(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Position]:
        self._fault("away")
        return {name: self.rows[name] for name in partitions if name in self.rows}

    def store(self, group: str, moves: Mapping[TopicPartition, Move], work: Callable[[Any], object]) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "away":
            self.tried.append("away")
            raise ProcessorAway("away")
        if fault.startswith("taken"):
            self.take_over(group, {NAMES[int(fault[-1])]: 0}, {})
        rows: list[tuple[TopicPartition, int]] = []
        work(rows)
        fenced = [name for name, (held, _) in moves.items() if self.rows[name] != held]
        if fenced:
            raise Fenced(fenced)
        self.stored += rows
        self.rows |= {name: Position(to, held.fence) for name, (held, to) in moves.items()}
        self.tried.append("committed")
        if fault == "answer lost":
            raise ProcessorAway("no answer")

    def close(self) -> None:
        return

    def _fault(self, kind: str) -> None:
        if self.faults and self.faults[0] == kind:
            self.faults.pop(0)
            raise ProcessorAway(kind)


@dataclass
class Member:
    """What the reading loop does, without a broker: it reads both partitions in turn, and has quarantine acknowledge, or not."""

    database: Database
    refused: frozenset[int]
    aside: set[tuple[TopicPartition, int]] = field(default_factory=set)
    """What quarantine has acknowledged."""
    at: dict[TopicPartition, int] = field(default_factory=dict)
    waiting: list[RefusedRecord] = field(default_factory=list)

    def start(self) -> None:
        def store(batch: Sequence[EventRecord], cursor: list[tuple[TopicPartition, int]]) -> None:
            assert 1 <= len(batch) <= MOST
            for one in batch:
                cursor.append((one.of, one.offset))
                if one.offset in self.refused:
                    raise RuntimeError("not this one")

        self.batches = BatchedRecords(
            store,
            Quarantine(after=2),
            Hasty(),
            max_records=MOST,
            max_wait_ms=60_000,
            positions=OwnPositions(self.database, GROUP, Topics()),
        )
        self.at, self.waiting, self.to_begin = {}, [], set(NAMES)
        self.begin()

    def begin(self) -> None:
        try:
            self.at |= self.batches.begin(dict.fromkeys(self.to_begin, 0))
            self.to_begin = set()
        except ProcessorAway:
            pass

    def read(self, number: int) -> None:
        name = NAMES[number]
        at = self.at.get(name)
        if at is None or at == LENGTH:
            return
        if (name, at) in POISON:
            self.at[name] = at + 1
            return
        try:
            self.batches.take(record(name, at))
        except ProcessorAway:
            return
        self.at[name] = at + 1

    def flush(self, *, is_acknowledged: bool = True) -> bool:
        """Return whether everything was done."""
        if self.to_begin:
            self.begin()
        if self.waiting and not is_acknowledged:
            return False
        self.aside |= {(one.record.of, one.record.offset) for one in self.waiting}
        self.waiting = []
        try:
            self.waiting = self.batches.flush(dict(self.at))
            return not self.waiting and not self.to_begin
        except PartitionsTaken as error:
            self.batches.end(error.partitions)
            for name in error.partitions:
                self.at.pop(name)
            self.to_begin |= set(error.partitions)
        except ProcessorAway:
            pass
        return False


POISON = {(NAMES[0], 5), (NAMES[1], LENGTH - 1)}
"""What holds no event: the loop sends it to quarantine, and the processor never sees it."""

ACTIONS = st.sampled_from(["read 0", "read 0", "read 1", "read 1", "flush", "no quarantine", "kill", "taken over"])
FAULTS = st.lists(st.sampled_from(["", "away", "answer lost", "taken 0", "taken 1"]), max_size=12)


@given(actions=st.lists(ACTIONS, max_size=60), faults=FAULTS, refused=st.frozensets(st.integers(0, LENGTH - 1), max_size=3))
def test_each_record_is_stored_once_or_in_quarantine_whatever_fails(
    actions: list[str], faults: list[str], refused: frozenset[int]
) -> None:
    member = Member(Database(faults=faults), refused)
    member.start()
    for action in actions:
        match action.split():
            case ["read", number]:
                member.read(int(number))
            case ["flush"]:
                member.flush()
            case ["no", "quarantine"]:
                member.flush(is_acknowledged=False)
            case ["kill"]:
                member.start()
            case ["taken", "over"]:  # by one that has it for a moment and stores nothing
                held = member.database.rows.get(NAMES[0])
                if held is not None:
                    member.database.rows[NAMES[0]] = Position(held.next_offset, held.fence + 1)
    member.database.faults.clear()
    for _ in range(20 * LENGTH):
        member.read(0)
        member.read(1)
        member.flush()
    assert member.flush()
    all_of_them = {(name, offset) for name in NAMES for offset in range(LENGTH)} - POISON
    culprits = {one for one in all_of_them if one[1] in refused}
    assert Counter(member.database.stored) == Counter(all_of_them - culprits)
    assert member.aside == culprits
    assert {name: held.next_offset for name, held in member.database.rows.items()} == dict.fromkeys(NAMES, LENGTH)


def batched(store: Any, database: Database | None = None, *, on_error: Any = Stop()) -> BatchedRecords:  # noqa: B008
    positions = None if database is None else OwnPositions(database, GROUP, Topics())
    one = BatchedRecords(store, on_error, Hasty(), max_records=MOST, max_wait_ms=60_000, positions=positions)
    one.begin({NAMES[0]: 0})
    return one


def test_a_full_batch_is_stored_at_once_and_what_waits_is_bounded() -> None:
    database, calls = Database(), list[int]()
    one = batched(lambda batch, cursor: calls.append(len(batch)), database)
    for offset in range(MOST):
        one.take(record(NAMES[0], offset))
    assert (calls, database.rows[NAMES[0]].next_offset) == ([MOST], MOST)
    database.faults = ["away"]
    for offset in range(MOST, 2 * MOST):
        one.take(record(NAMES[0], offset))
    assert one.is_full
    with pytest.raises(ProcessorAway):
        one.take(record(NAMES[0], 2 * MOST))
    assert one.flush({NAMES[0]: 2 * MOST}) == []
    assert calls == [MOST, MOST]
    one.take(record(NAMES[0], 2 * MOST))


def test_a_committed_transaction_without_an_answer_is_not_repeated_and_one_that_failed_is() -> None:
    for fault, transactions in (("answer lost", ["committed"]), ("away", ["away", "committed"])):
        database = Database()
        one = batched(lambda batch, cursor: cursor.append((batch[0].of, batch[0].offset)), database)
        database.faults = [fault]
        one.take(record(NAMES[0], 0))
        with pytest.raises(ProcessorAway):
            one.flush({NAMES[0]: 1})
        one.flush({NAMES[0]: 1})
        assert (database.tried, database.stored) == (transactions, [(NAMES[0], 0)])


def test_a_store_that_fails_for_what_the_new_owner_stored_is_not_blamed() -> None:
    database = Database()

    def store(batch: Sequence[EventRecord], cursor: Any) -> None:
        database.take_over(GROUP, {NAMES[0]: 0}, {})
        raise RuntimeError("duplicate key")

    one = batched(store, database)
    one.take(record(NAMES[0], 0))
    with pytest.raises(PartitionsTaken) as found:
        one.flush({NAMES[0]: 1})
    assert found.value.partitions == (NAMES[0],)
    assert one.flush({}) == []


def test_after_an_error_nothing_is_tried_again_and_every_flush_raises_it() -> None:
    calls = list[int]()

    def store(batch: Sequence[EventRecord]) -> None:
        calls.append(len(batch))
        raise RuntimeError("no")

    one = batched(store)
    for offset in (0, 1):
        one.take(record(NAMES[0], offset))
    for _ in range(2):
        with pytest.raises(BatchFailed, match="offsets 0 to 1 of clicks-0: RuntimeError: no"):
            one.flush({NAMES[0]: 2})
    assert calls == [2]


def test_a_log_that_begins_anew_ends_the_reader_unless_it_did_so_before_the_takeover() -> None:
    database = Database(rows={NAMES[0]: Position(90, 1)})
    one = batched(lambda batch, cursor: cursor.append((batch[0].of, batch[0].offset)), database)
    one.take(record(NAMES[0], 3))
    one.flush({NAMES[0]: 4})
    assert database.rows[NAMES[0]] == Position(4, 2), "the loop began there, and said so"
    one.take(record(NAMES[0], 0))
    for _ in range(2):
        with pytest.raises(LogBeganAnew, match="the log of clicks-0 begins again"):
            one.flush({NAMES[0]: 1})
    assert database.stored == [(NAMES[0], 3)]


def test_an_ended_transaction_ends_the_reader() -> None:
    class Ending(Database):
        def store(self, *_: Any) -> None:
            raise TransactionEnded

    one = batched(lambda batch, cursor: None, Ending())
    one.take(record(NAMES[0], 0))
    for _ in range(2):
        with pytest.raises(TransactionEnded):
            one.flush({NAMES[0]: 1})


def test_the_time_of_a_batch_counts_from_its_first_record() -> None:
    class At:
        ms = 1_000

        def now_ms(self) -> int:
            return self.ms

        def monotonic_ms(self) -> int:
            return self.ms

        def monotonic(self) -> float:
            return self.ms / 1000

    clock = At()
    one = BatchedRecords(lambda batch: None, Stop(), Hasty(), max_records=9, max_wait_ms=200, clock=clock)  # type: ignore[arg-type]
    one.begin({NAMES[0]: 0})
    clock.ms = 5_000
    assert not one.is_full
    one.take(record(NAMES[0], 0))
    clock.ms = 5_199
    assert not one.is_full
    clock.ms = 5_200
    assert one.is_full
    one.flush({NAMES[0]: 1})
    assert not one.is_full
