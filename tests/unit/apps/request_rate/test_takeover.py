"""Kill the service between any two steps, let another take over, any number of times: nothing is lost and nothing counted twice.

The audit's side is the real one: the real reporter, its real messages, the real uniting of ranges.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.apps.request_rate.partition import PartitionCounts
from headrace.apps.request_rate.state import MINUTE_MS, PartitionState
from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.audit.model.ranges import Outcome, Ranges
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
        self.books = Ranges()
        self.outcomes: list[Outcome] = []
        self.redelivered = 0
        self.reported_to: int | None = None
        self.state: PartitionState | None = None
        self.committed = 0
        self.dies_before_positions = False

    def send(self, topic: str, value: bytes, *, key: bytes | None = None, timestamp_ms: int) -> None:
        report = decode(value)
        assert isinstance(report, RangeReport)
        assert report.parts == 1
        change = self.books.accept(report.from_offset, report.to_offset, report.windows)
        self.outcomes.append(change.outcome)
        self.redelivered += sum(window.redelivered for window in report.windows.values()) + sum(change.redelivered.values())

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
        new, quarantined, redelivered = self.counts.take_tallies()
        self.reporter.add_counts("t", 0, position, new, quarantined=quarantined, redelivered=redelivered)
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

    assert Outcome.OVERLAPPING not in world.outcomes
    usable = [timestamp_ms for timestamp_ms, is_usable in log if is_usable]
    assert world.state is not None
    assert dict(world.state.minutes) == dict(Counter(at // MINUTE_MS * MINUTE_MS for at in usable))
    counted = Counter(at // WINDOW_MS * WINDOW_MS for at in usable)
    quarantined = Counter(at // WINDOW_MS * WINDOW_MS for at, is_usable in log if not is_usable)
    for window in counted.keys() | quarantined.keys():
        total = world.books.total(window)
        assert total is not None
        assert (total.count, total.quarantined) == (counted[window], quarantined[window])
    assert world.books.coverage() == ([(0, len(log) * STEP)] if log else [])


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


def test_only_what_counts_for_something_needs_decoding() -> None:
    counts = PartitionCounts("t", 0, begin=0, state_offset=20, minutes={}, reported_to=30)
    assert [counts.is_news(offset) for offset in (0, 19, 20, 30)] == [False, False, True, True]
