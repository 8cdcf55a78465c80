"""Kill the service between any two steps, let another take over, any number of times: nothing is lost and nothing counted twice.

The reporter and its messages are the real ones; what they say is united by offset: a report replaces what was said before.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.apps.request_rate.partition import PartitionCounts
from headrace.apps.request_rate.state import MINUTE_MS, PartitionState
from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport, Skipped, Stretch
from headrace.audit.model.windows import WINDOW_MS
from headrace.audit.publisher import RangeReporter

TIER = "consumer:request-rate"
STEP = 10
"""Offsets from one record to the next: they increase and are not consecutive."""


class Killed(BaseException):
    """Stands for kill -9: nothing below catches it."""


class World:
    """What outlives a process: the audit's books, the audit positions, the state file, the group's offset."""

    def __init__(self) -> None:
        self.offsets: dict[int, tuple[int, str]] = {}
        """Offset → window and kind, as told last."""
        self.covered: set[int] = set()
        self.redelivered = 0
        self.reported_to: int | None = None
        self.state: PartitionState | None = None
        self.committed = 0
        self.dies_before_positions = False

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        report = decode(value)
        assert isinstance(report, RangeReport)
        again = self.covered & set(range(report.from_offset, report.to_offset))
        self.redelivered += sum(window.redelivered for window in report.windows.values()) + len(again & self.offsets.keys())
        self.covered |= set(range(report.from_offset, report.to_offset))
        for offset in again:
            self.offsets.pop(offset, None)
        for start, window in report.windows.items():
            for kind, stretches in (("held", window.held), ("quarantined", window.quarantined)):
                for offset in (offset for one in stretches for offset in range(one.first, one.end)):
                    assert offset not in self.offsets
                    self.offsets[offset] = (start, kind)

    def flush(self, timeout_ms: int, /) -> None:
        return

    def read(self, tier: str, topic: str, partition: int, /) -> int | None:
        return self.reported_to

    def write(self, tier: str, topic: str, partition: int, offset: int, /) -> None:
        if self.dies_before_positions:
            raise Killed
        self.reported_to = offset


class Process:
    """One life of the service on one partition, with the steps of a flush as the service takes them."""

    def __init__(self, world: World) -> None:
        self.world = world
        state = world.state
        self.counts = PartitionCounts(
            "t",
            0,
            begin=world.committed,
            state_offset=world.committed if state is None else max(world.committed, state.offset),
            minutes={} if state is None else state.minutes,
            reported_to=world.reported_to,
        )
        self.reporter = RangeReporter(tier=TIER, instance="i", sender=world, positions=world)
        self.reporter.begin("t", 0, self.counts.reported_to)

    def take(self, records: list[tuple[int, bool]], count: int) -> None:
        first = self.counts.position // STEP
        for index in range(first, min(first + count, len(records))):
            timestamp_ms, is_usable = records[index]
            self.counts.count(index * STEP, (index + 1) * STEP, timestamp_ms, is_usable=is_usable)

    def flush(self, steps: int) -> None:
        """Take the first `steps` of the four steps of a flush, then die if they were not all."""
        position = self.counts.position
        if steps == 0:
            raise Killed
        held, quarantined, redelivered, skipped = self.counts.take_tallies()
        self.reporter.add_records("t", 0, position, held, quarantined=quarantined, redelivered=redelivered, skipped=skipped)
        self.world.dies_before_positions = steps == 1
        self.reporter.publish()
        self.counts.reported_to = max(self.counts.reported_to, position)
        if steps == 2:
            raise Killed
        self.world.state = self.counts.state()
        if steps == 3:
            raise Killed
        self.world.committed = position


records = st.lists(st.tuples(st.integers(0, 3 * WINDOW_MS), st.booleans()), max_size=40)
lives = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 4)), max_size=25)


@settings(max_examples=200, deadline=None)
@given(records, lives)
def test_whatever_is_killed_wherever_minutes_and_books_are_those_of_the_records(
    log: list[tuple[int, bool]], script: list[tuple[int, int]]
) -> None:
    world = World()
    process = Process(world)
    for count, steps in script:
        process.take(log, count)
        try:
            process.flush(steps)
        except Killed:
            world.dies_before_positions = False
            process = Process(world)
    process.take(log, len(log))
    process.flush(4)

    usable = [timestamp_ms for timestamp_ms, is_usable in log if is_usable]
    assert world.state is not None
    assert dict(world.state.minutes) == dict(Counter(at // MINUTE_MS * MINUTE_MS for at in usable))
    assert world.offsets == {
        index * STEP: (at // WINDOW_MS * WINDOW_MS, "held" if is_usable else "quarantined")
        for index, (at, is_usable) in enumerate(log)
    }
    assert world.covered == set(range(len(log) * STEP))


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_a_redelivered_record_is_told_as_redelivered_only_where_the_audit_had_it(steps: int) -> None:
    world = World()
    log = [(index, True) for index in range(10)]
    process = Process(world)
    process.take(log, 10)
    try:
        process.flush(steps)
    except Killed:
        pass
    world.dies_before_positions = False
    successor = Process(world)
    successor.take(log, 10)
    successor.flush(4)
    assert world.redelivered == (10 if steps in (1, 2, 3) else 0)
    assert world.state is not None
    assert sum(world.state.minutes.values()) == 10


def test_neighbours_are_one_stretch_and_each_is_told_once() -> None:
    counts = PartitionCounts("t", 0, begin=0, state_offset=0, minutes={}, reported_to=None)
    for offset, at, is_usable in ((10, 0, True), (11, 1, True), (12, 2, False), (13, 3, True), (20, WINDOW_MS, True)):
        counts.count(offset, offset + 1, at, is_usable=is_usable)
    assert counts.stretch_count == 4
    held, quarantined, _, _ = counts.take_tallies()
    assert held == {0: [Stretch(10, 2), Stretch(13, 1)], WINDOW_MS: [Stretch(20, 1)]}
    assert quarantined == {0: [Stretch(12, 1)]}
    assert (counts.take_tallies().held, counts.stretch_count) == ({}, 0)


def test_a_corrupt_range_is_told_once_from_where_the_audit_had_heard() -> None:
    counts = PartitionCounts("t", 0, begin=0, state_offset=0, minutes={}, reported_to=30)
    counts.skip(20, 40, "corrupt")
    counts.skip(20, 40, "corrupt")
    counts.skip(40, 50, "expired")
    assert counts.take_tallies().skipped == [Skipped(30, 40, "corrupt"), Skipped(40, 50, "expired")]
    assert counts.position == 50


def test_only_what_counts_for_something_needs_decoding() -> None:
    counts = PartitionCounts("t", 0, begin=0, state_offset=20, minutes={}, reported_to=30)
    assert [counts.is_news(offset) for offset in (0, 19, 20, 30)] == [False, False, True, True]
