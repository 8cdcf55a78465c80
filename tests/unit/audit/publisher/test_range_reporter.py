"""What a reading tier tells: each offset once, from where it last noted, through failures of topic and position book."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.errors import AuditError
from headrace.audit.model.messages import MAX_STRETCHES, MAX_WINDOWS, RangeReport, RangeWindow, Skipped, Stretch
from headrace.audit.publisher import RangeReporter, ReportNotSent, UnreportedBacklog
from headrace.audit.publisher.range_split import split
from headrace.runtime.clock import ManualClock
from tests.support.audit_topic import AuditTopic, ReportedPositions

from ..batches import batch

W = 600_000


def reporter(topic: AuditTopic, positions: ReportedPositions, most_stretches: int = 50_000) -> RangeReporter:
    return RangeReporter(
        tier="mirror", instance="one", sender=topic, positions=positions, clock=ManualClock(5), most_stretches=most_stretches
    )


def said(reports: list[RangeReport]) -> dict[int, Counter[tuple[int, str]]]:
    """Offset → (window, kind) of the records there: a report replaces what earlier ones said of its offsets."""
    offsets: dict[int, Counter[tuple[int, str]]] = {}
    for report in reports:
        for offset in range(report.from_offset, report.to_offset):
            offsets[offset] = Counter()
        for one in report.skipped:
            for offset in range(one.from_offset, one.to_offset):
                offsets[offset][0, one.reason] += 1
        for start, window in report.windows.items():
            for kind in ("held", "quarantined", "altered"):
                for stretch in getattr(window, kind):
                    for offset in range(stretch.first, stretch.end):
                        offsets[offset][start, kind] += 1
    return offsets


def held(reports: list[RangeReport], window: int = 0) -> list[int]:
    return sorted(offset for offset, found in said(reports).items() for _ in range(found[window, "held"]))


def test_a_tier_announces_itself_before_it_has_read_anything() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    assert one.reported("clicks", 0) is None
    one.begin("clicks", 0, 100)
    assert one.publish() == 1
    assert one.publish() == 0
    (report,) = topic.ranges
    assert (report.from_offset, report.to_offset) == (100, 100)
    assert one.reported("clicks", 0) == 100


def test_positions_of_however_many_partitions_are_written_at_once() -> None:
    for count in (100, 200):
        positions = ReportedPositions()
        one = reporter(AuditTopic(), positions)
        for partition in range(count):
            one.begin("clicks", partition, 7)
        assert one.publish() == count
        assert positions.writes == 1
        assert positions.noted == {("mirror", "clicks", partition): 7 for partition in range(count)}


def test_batches_are_told_range_by_range_with_their_crcs() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    (first, raw), second = batch([1, 2, W], position=0), batch([3], position=200)
    one.add_batch("clicks", 0, first, raw)
    one.publish()
    one.add_batch("clicks", 0, *second)
    one.publish()
    assert [(report.from_offset, report.to_offset) for report in topic.ranges] == [
        (0, first.next_offset),
        (first.next_offset, second[0].next_offset),
    ]
    base = first.base_offset
    assert dict(topic.ranges[0].windows) == {
        0: RangeWindow(held=(Stretch(base, 2, first.crc),)),
        W: RangeWindow(held=(Stretch(base + 2, 1, first.crc),)),
    }
    assert topic.ranges[1].windows[0].held == (Stretch(second[0].base_offset, 1, second[0].crc),)


def test_a_batch_that_is_partly_noted_already_adds_only_the_rest() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    stored = batch([1, 2, 3, 4], position=0)
    base = stored[0].base_offset
    one.begin("clicks", 0, base + 2)
    assert one.add_batch("clicks", 0, *stored) == 2
    assert one.add_batch("clicks", 0, *stored) == 0
    one.publish()
    assert held(topic.ranges) == [base + 2, base + 3]


def test_what_cannot_be_read_is_told_with_its_reason() -> None:
    """Names two faults: records expired on live before they were copied were 'mirror silent', corrupt ones counted nothing."""
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 10)
    one.skip("clicks", 0, 30, "expired")
    one.add_records("clicks", 0, 40, {0: [Stretch(30, 10)]})
    one.skip("clicks", 0, 50, "corrupt")
    one.skip("clicks", 0, 45, "corrupt")
    one.publish()
    (report,) = topic.ranges
    assert (report.from_offset, report.to_offset) == (10, 50)
    assert report.skipped == (Skipped(10, 30, "expired"), Skipped(40, 50, "corrupt"))


def test_what_was_noted_while_a_report_was_on_its_way_is_told_by_the_next() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    one.add_records("clicks", 0, 10, {0: [Stretch(0, 4)]}, quarantined={0: [Stretch(4, 1)]})
    topic.at_send = lambda: one.add_records("clicks", 0, 30, {0: [Stretch(20, 2)], W: [Stretch(22, 1)]})
    one.publish()
    topic.at_send = lambda: None
    one.publish()
    assert (held(topic.ranges), held(topic.ranges, W)) == ([0, 1, 2, 3, 20, 21], [22])
    assert [(report.from_offset, report.to_offset) for report in topic.ranges] == [(0, 10), (10, 30)]


@pytest.mark.parametrize("loses", [True, False])
def test_a_report_that_failed_is_told_again_with_what_came_since(loses: bool) -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    one.add_records("clicks", 0, 10, {0: [Stretch(0, 4)]}, redelivered={0: 2})
    one.skip("clicks", 0, 15, "corrupt")
    topic.refuses, topic.loses = True, loses
    with pytest.raises(ReportNotSent):
        one.publish()
    topic.refuses = topic.loses = False
    assert one.reported("clicks", 0) is None
    one.add_records("clicks", 0, 20, {0: [Stretch(17, 3)]}, redelivered={0: 1})
    one.publish()
    assert held(topic.ranges) == [0, 1, 2, 3, 17, 18, 19]
    assert topic.ranges[-1].skipped == (Skipped(10, 15, "corrupt"),)
    assert topic.ranges[-1].windows[0].redelivered == 3
    assert one.reported("clicks", 0) == 20


def test_a_position_that_could_not_be_noted_makes_the_range_be_told_again() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    one.begin("clicks", 0, 0)
    one.add_records("clicks", 0, 10, {0: [Stretch(0, 4)]})
    positions.refuses = True
    with pytest.raises(ConnectionError):
        one.publish()
    positions.refuses = False
    one.publish()
    assert held(topic.ranges) == [0, 1, 2, 3]
    assert one.reported("clicks", 0) == 10


def test_a_long_range_is_told_as_shorter_ones_that_a_message_can_hold() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions)
    windows = {at * W: RangeWindow(held=(Stretch(at, 1, 7),)) for at in range(2 * MAX_WINDOWS + 1)}
    one.report("clicks", 0, 0, 10_000, windows)
    assert [len(report.windows) for report in topic.ranges] == [MAX_WINDOWS, MAX_WINDOWS, 1]
    edges = [(report.from_offset, report.to_offset) for report in topic.ranges]
    assert edges == [(0, MAX_WINDOWS), (MAX_WINDOWS, 2 * MAX_WINDOWS), (2 * MAX_WINDOWS, 10_000)]
    assert one.reported("clicks", 0) == 10_000
    many = tuple(Stretch(20_000 + 100 * at, 50, at) for at in range(2 * MAX_STRETCHES + 1))
    one.report("clicks", 0, 20_000, 4_000_000, {0: RangeWindow(held=many)})
    assert [len(report.windows[0].held) for report in topic.ranges[3:]] == [MAX_STRETCHES, MAX_STRETCHES, 1]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_however_a_range_is_cut_it_says_the_same(seed: int) -> None:
    """Each record is of one window; some stand twice, in stretches that reach over a cut."""
    drawn = random.Random(seed)
    windows: dict[int, RangeWindow] = {}
    at, most = 0, drawn.choice([1, 10, 3 * MAX_WINDOWS])
    while at < 5_000:
        stretch, start = Stretch(at, drawn.randint(1, 9), at), drawn.randrange(most) * W
        before = windows.get(start, RangeWindow())
        again = Stretch(at + 1, stretch.count - 1, at)
        doubled = (again,) if again.count and drawn.random() < 0.2 else ()
        windows[start] = RangeWindow(
            held=(*before.held, stretch, *doubled), altered=(*before.altered, *doubled), quarantined=before.quarantined + doubled
        )
        at = stretch.end + drawn.choice([0, 0, 60])
    skipped = (Skipped(5_100, 5_200, "corrupt"), Skipped(5_300, 6_000, "expired"))

    def report(part: tuple[int, int, dict[int, RangeWindow], tuple[Skipped, ...]]) -> RangeReport:
        start, end, found, passed = part
        return RangeReport(
            tier="m",
            instance="i",
            at_ms=0,
            topic="t",
            partition=0,
            from_offset=start,
            to_offset=end,
            windows=found,
            skipped=passed,
        )

    parts = split(0, 6_000, windows, skipped)
    assert [part.from_offset for part in parts] == [0, *[part.to_offset for part in parts[:-1]]]
    assert all(len(part.windows) <= MAX_WINDOWS for part in parts)
    assert said([report(part) for part in parts]) == said([report((0, 6_000, windows, skipped))])


def test_what_is_unreported_is_bounded() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    one = reporter(topic, positions, most_stretches=10)
    one.begin("clicks", 0, 0)
    position = 0
    for _ in range(10):
        stored = batch([1], position=position)
        one.add_batch("clicks", 0, *stored)
        position = stored[0].next_offset
    with pytest.raises(UnreportedBacklog):
        one.add_batch("clicks", 0, *batch([1], position=position))
    topic.refuses = True
    with pytest.raises(ReportNotSent):
        one.publish()
    with pytest.raises(UnreportedBacklog):
        one.add_batch("clicks", 0, *batch([1], position=position))
    topic.refuses = False
    one.publish()
    one.add_batch("clicks", 0, *batch([1], position=position))


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.lists(st.integers(0, 3 * W), min_size=1, max_size=6), min_size=1, max_size=8), most=st.integers(1, 12))
def test_a_list_of_batches_is_noted_as_they_would_be_one_by_one(sizes: list[list[int]], most: int) -> None:
    batches, position = [], 0
    for timestamps in sizes:
        batches.append(batch(timestamps, position=position))
        position = batches[-1][0].next_offset
    one_by_one, as_list = AuditTopic(), AuditTopic()
    first, second = (reporter(topic, ReportedPositions(), most_stretches=most) for topic in (one_by_one, as_list))
    for each in (first, second):
        each.begin("clicks", 0, 0)
    noted = second.add_batches("clicks", 0, batches)
    for stored in batches[:noted]:
        first.add_batch("clicks", 0, *stored)
    if noted < len(batches):
        with pytest.raises(UnreportedBacklog):
            first.add_batch("clicks", 0, *batches[noted])
        assert second.add_batches("clicks", 0, batches[noted:]) == 0
    assert first.position("clicks", 0) == second.position("clicks", 0)
    first.publish()
    second.publish()
    assert as_list.ranges == one_by_one.ranges
    assert second.add_batches("clicks", 0, batches[noted:]) == 0 or noted < len(batches)


def test_noting_before_begin_is_refused() -> None:
    with pytest.raises(AuditError, match="begin"):
        reporter(AuditTopic(), ReportedPositions()).add_records("clicks", 0, 5, {})


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_each_offset_is_told_once_through_crashes_and_failures_at_every_step(seed: int) -> None:
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
            found: dict[int, list[Stretch]] = {}
            for offset in range(at, end):
                found.setdefault(log[offset], []).append(Stretch(offset, 1))
            one.add_records("clicks", 0, end, found)
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
    assert said(topic.ranges) == {offset: Counter({(window, "held"): 1}) for offset, window in enumerate(log)}
