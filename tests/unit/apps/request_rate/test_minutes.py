"""Kill the service between any two steps, let another take over, any number of times: nothing is lost and nothing counted twice.

Minutes, counts, reporter and messages are the real ones; the file system and the topics are in memory.
"""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.apps.request_rate.minutes import Minutes
from headrace.apps.request_rate.state import MINUTE_MS, Overtaken, PartitionState, StateError, StateFolder
from headrace.audit.model.windows import WINDOW_MS
from headrace.audit.publisher import RangeReporter
from headrace.client.consumer.stream_message import Message
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader.counts import ReadCounts
from headrace.reader.processor import PartitionsTaken, ProcessorAway
from headrace.reader.record import EventRecord
from tests.support.audit_topic import AuditTopic, ReportedPositions
from tests.support.told_by_ranges import ToldByRanges

NAME = TopicPartition("t", 0)
STEP = 10
"""Offsets from one record to the next: they increase and are not consecutive."""
STEPS = ("state", "told", "committed")
Log = list[tuple[int, bool]]
"""Event time, and whether the record can be decoded."""


class MemoryFolder(StateFolder):
    """States in memory."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.states: dict[tuple[str, int], PartitionState] = {}
        self.is_full = False

    def load(self, topic: str, partition: int) -> PartitionState | None:
        return self.states.get((topic, partition))

    def save(self, state: PartitionState) -> None:
        if self.is_full:
            raise StateError("the disk is full")
        held = self.states.get((state.topic, state.partition))
        if held is not None and held.offset > state.offset:
            raise Overtaken(Path("/nowhere"), held.offset, state.offset)
        self.states[state.topic, state.partition] = state


def record(offset: int, timestamp_ms: int) -> EventRecord:
    return EventRecord(Message(*NAME, offset, offset + STEP, timestamp_ms, None, b"x", ()), 1, {})


class World:
    """What outlives a process: the audit's topic and positions, the state file, the group's offset."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.topic, self.positions, self.folder = AuditTopic(), ReportedPositions(), MemoryFolder()
        self.committed = 0

    def life(self, turns: list[int], dies_before: str | None) -> None:
        """Play one process as the reading loop does: so many records a turn, then a flush. The last one may be cut short."""
        minutes = Minutes(self.folder, lambda _: (0, STEP * len(self.log)))
        counts = ReadCounts(
            RangeReporter(tier="consumer:request-rate", instance="i", sender=self.topic, positions=self.positions)
        )
        begin, told = minutes.begin({NAME: self.committed})[NAME], counts.reported(NAME)
        at = begin if begin < self.committed else max(self.committed, min(begin, told or 0))
        counts.begin(NAME, at, told)
        for number, count in enumerate(turns):
            for index in range(at // STEP, min(at // STEP + count, len(self.log))):
                timestamp_ms, is_usable = self.log[index]
                one = record(index * STEP, timestamp_ms)
                if is_usable and one.offset >= begin:
                    minutes.take(one)
                counts.count(one.message, is_held=is_usable)
                at = one.message.next_offset
            for step in STEPS:
                if step == dies_before and number == len(turns) - 1:
                    return
                if step == "state":
                    minutes.flush({NAME: at})
                elif step == "told":
                    counts.tell({NAME: at}, 1_000)
                else:
                    self.committed = max(self.committed, at)

    def minutes(self) -> dict[int, int]:
        return dict(self.folder.states[NAME].minutes)


lives = st.lists(
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.sampled_from([None, *STEPS]), st.booleans()), max_size=8
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3 * WINDOW_MS), st.booleans()), min_size=1, max_size=40), lives)
def test_whatever_is_killed_wherever_minutes_and_books_are_those_of_the_records(
    log: Log, script: list[tuple[list[int], str | None, bool]]
) -> None:
    world = World(log)
    for turns, dies_before, loses_its_state in script:
        if loses_its_state:
            world.folder.states.clear()
        world.life(turns, dies_before)
    world.life([len(log)], None)

    assert world.minutes() == dict(Counter(at // MINUTE_MS * MINUTE_MS for at, is_usable in log if is_usable))
    said = ToldByRanges(world.topic.ranges)
    kinds = {True: "held", False: "quarantined"}
    expected = {
        index * STEP: [(at // WINDOW_MS * WINDOW_MS, kinds[is_usable], None)] for index, (at, is_usable) in enumerate(log)
    }
    assert said.records[0] == expected
    assert said.covered[0] == [(0, len(log) * STEP)]


@pytest.mark.parametrize("dies_before", [None, *STEPS])
def test_a_kill_at_any_step_makes_nothing_be_told_as_redelivered(dies_before: str | None) -> None:
    world = World([(index, True) for index in range(10)])
    world.life([10], dies_before)
    world.life([10], None)
    assert ToldByRanges(world.topic.ranges).redelivered == 0
    assert sum(world.minutes().values()) == 10


def test_what_is_counted_anew_is_told_as_redelivered_where_the_audit_had_it() -> None:
    world = World([(index, True) for index in range(10)])
    world.life([4], None)
    world.folder.states.clear()
    world.life([10], None)
    assert ToldByRanges(world.topic.ranges).redelivered == 4
    assert sum(world.minutes().values()) == 10


def test_a_lost_state_is_counted_anew_from_where_the_log_begins() -> None:
    minutes = Minutes(MemoryFolder(), lambda _: (30, 100))
    assert minutes.begin({NAME: 90}) == {NAME: 30}
    assert minutes.begin({NAME: 20}) == {NAME: 20}


def test_who_was_overtaken_writes_nothing_and_lets_go_of_the_partition() -> None:
    folder = MemoryFolder()
    minutes = Minutes(folder, lambda _: (0, 100))
    minutes.begin({NAME: 0})
    minutes.take(record(0, 5))
    successor = PartitionState(topic="t", partition=0, offset=80, minutes={0: 8})
    folder.states[NAME] = successor
    with pytest.raises(PartitionsTaken) as caught:
        minutes.flush({NAME: 10})
    assert caught.value.partitions == (NAME,)
    minutes.take(record(10, 5))
    assert minutes.flush({NAME: 20}) == []
    assert folder.states[NAME] == successor


def test_a_full_disk_is_waited_for() -> None:
    folder = MemoryFolder()
    minutes = Minutes(folder, lambda _: (0, 100))
    minutes.begin({NAME: 0})
    minutes.take(record(0, 5))
    folder.is_full = True
    with pytest.raises(ProcessorAway, match="the disk is full"):
        minutes.flush({NAME: 10})
    folder.is_full = False
    assert minutes.flush({NAME: 10}) == []
    assert folder.states[NAME].minutes == {0: 1}


def test_a_record_that_comes_again_because_the_log_begins_anew_is_not_counted_again() -> None:
    folder = MemoryFolder()
    minutes = Minutes(folder, lambda _: (0, 100))
    minutes.begin({NAME: 0})
    for offset in (0, 10, 0, 10, 20):
        minutes.take(record(offset, 5))
    minutes.flush({NAME: 30})
    assert folder.states[NAME].minutes == {0: 3}
