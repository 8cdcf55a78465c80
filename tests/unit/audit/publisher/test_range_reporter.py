"""What a reading tier tells: each offset once, from where it last noted, through failures of topic and position book."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.build_facts import window_facts
from headrace.audit.model.errors import AuditError
from headrace.audit.model.messages import MAX_WINDOWS, RangeReport, RangeWindow
from headrace.audit.model.tier_reports import LogKey, TierReports
from headrace.audit.publisher import RangeReporter, ReportNotSent, UnreportedBacklog
from headrace.runtime.clock import ManualClock
from tests.support.audit_topic import AuditTopic, ReportedPositions

from ..batches import batch
from ..world import NoJournal

W = 600_000


def reporter(topic: AuditTopic, positions: ReportedPositions, most_windows: int = 50_000) -> RangeReporter:
    return RangeReporter(
        tier="mirror", instance="one", sender=topic, positions=positions, clock=ManualClock(5), most_windows=most_windows
    )


def books_of(reports: list[RangeReport]) -> TierReports:
    books = TierReports(W)
    for report in reports:
        books.take_range(report, 1, NoJournal())
    return books


def counted(reports: list[RangeReport], window: int = 0) -> int:
    cells = window_facts(books_of(reports), "clicks", window).cells.get("mirror", {})
    return sum(cell.found.count for cell in cells.values())


def test_a_tier_announces_itself_before_it_has_read_anything() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    assert one.reported("clicks", 0) is None
    one.begin("clicks", 0, 100)
    assert one.publish() == 1
    assert one.publish() == 0
    (said,) = topic.ranges
    assert (said.from_offset, said.to_offset) == (100, 100)
    assert one.reported("clicks", 0) == 100


def test_batches_are_counted_and_reported_range_by_range() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    first = batch([1, 2, W], position=0)
    second = batch([3], position=first[0].next_offset)
    one.add_batch("clicks", 0, *first)
    one.publish()
    one.add_batch("clicks", 0, *second)
    one.publish()
    assert [(said.from_offset, said.to_offset) for said in topic.ranges] == [
        (0, first[0].next_offset),
        (first[0].next_offset, second[0].next_offset),
    ]
    assert (counted(topic.ranges), counted(topic.ranges, W)) == (3, 1)


def test_a_batch_that_is_partly_counted_already_adds_only_the_rest() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    stored = batch([1, 2, 3, 4], position=0)
    one.begin("clicks", 0, stored[0].base_offset + 2)
    assert one.add_batch("clicks", 0, *stored) == 2
    assert one.add_batch("clicks", 0, *stored) == 0
    one.publish()
    assert counted(topic.ranges) == 2


def test_what_was_counted_while_a_report_was_on_its_way_is_told_by_the_next() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    one.add_counts("clicks", 0, 10, {0: 4}, quarantined={0: 1})
    topic.at_send = lambda: one.add_counts("clicks", 0, 30, {0: 2, W: 1})
    one.publish()
    topic.at_send = lambda: None
    one.publish()
    assert (counted(topic.ranges), counted(topic.ranges, W)) == (6, 1)
    assert [(said.from_offset, said.to_offset) for said in topic.ranges] == [(0, 10), (10, 30)]


@pytest.mark.parametrize("loses", [True, False])
def test_a_report_that_failed_is_told_again_with_what_came_since(loses: bool) -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    one.add_counts("clicks", 0, 10, {0: 4})
    topic.refuses, topic.loses = True, loses
    with pytest.raises(ReportNotSent):
        one.publish()
    topic.refuses = topic.loses = False
    assert one.reported("clicks", 0) is None
    one.add_counts("clicks", 0, 20, {0: 3})
    one.publish()
    assert counted(topic.ranges) == 7
    assert one.reported("clicks", 0) == 20


def test_a_position_that_could_not_be_noted_makes_the_range_be_told_again() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    one.add_counts("clicks", 0, 10, {0: 4})
    positions.refuses = True
    with pytest.raises(ConnectionError):
        one.publish()
    positions.refuses = False
    one.publish()
    assert counted(topic.ranges) == 4
    assert one.reported("clicks", 0) == 10


def test_many_windows_come_in_parts_that_count_once_all_are_there() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.report("clicks", 0, 0, 10_000, {at * W: RangeWindow(count=1) for at in range(2 * MAX_WINDOWS + 1)})
    assert [len(said.windows) for said in topic.ranges] == [MAX_WINDOWS, MAX_WINDOWS, 1]
    books = books_of(topic.ranges[:2])
    assert books.position(LogKey("mirror", "clicks", 0)) is None
    books = books_of(topic.ranges)
    assert books.position(LogKey("mirror", "clicks", 0)) == 10_000
    assert counted(topic.ranges) == 1
    assert one.reported("clicks", 0) == 10_000


def test_unreported_windows_are_bounded() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions, most_windows=10)
    one.begin("clicks", 0, 0)
    for at in range(10):
        one.add_counts("clicks", 0, at + 1, {at * W: 1})
    with pytest.raises(UnreportedBacklog):
        one.add_counts("clicks", 0, 11, {10 * W: 1})
    one.publish()
    one.add_counts("clicks", 0, 11, {10 * W: 1})


def test_counting_before_begin_is_refused() -> None:
    with pytest.raises(AuditError, match="begin"):
        reporter(AuditTopic(), ReportedPositions()).add_counts("clicks", 0, 5, {})


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_each_offset_counts_once_through_crashes_and_failures_at_every_step(seed: int) -> None:
    """One record at each offset; the tier is killed and begins again at its noted position, as often as is drawn."""
    drawn = random.Random(seed)
    topic, positions = AuditTopic(), ReportedPositions()
    log = [drawn.randrange(3) * W for _ in range(60)]
    for life in range(60):
        one = reporter(topic, positions)
        at = one.reported("clicks", 0) or 0
        one.begin("clicks", 0, at)
        is_last = life == 59
        while at < len(log) and (is_last or drawn.random() < 0.8):
            end = min(len(log), at + drawn.randint(1, 9))
            found: dict[int, int] = {}
            for window in log[at:end]:
                found[window] = found.get(window, 0) + 1
            one.add_counts("clicks", 0, end, found)
            at = end
            topic.loses = not is_last and drawn.random() < 0.2
            topic.refuses = topic.loses or (not is_last and drawn.random() < 0.2)
            positions.refuses = not is_last and drawn.random() < 0.2
            try:
                one.publish()
            except (ReportNotSent, ConnectionError):
                pass
        if is_last:
            one.publish()
    assert [counted(topic.ranges, window * W) for window in range(3)] == [log.count(window * W) for window in range(3)]
    assert books_of(topic.ranges).position(LogKey("mirror", "clicks", 0)) == len(log)
