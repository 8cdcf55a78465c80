"""One rule for windows: whoever counts, a time falls in the same window at every tier."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.model.windows import dated, window_start_ms
from headrace.audit.publisher import RangeReporter
from headrace.client.consumer.stream_message import Message
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader.counts import ReadCounts
from tests.support.audit_topic import AuditTopic, ReportedPositions

DAY_MS = 86_400_000


@given(st.integers(-DAY_MS, DAY_MS))
def test_the_consumer_tier_counts_in_the_windows_of_the_live_tier(timestamp_ms: int) -> None:
    # It had a rule of its own: records from before 1970 made one window too many and one too few in the books.
    topic = AuditTopic()
    counts = ReadCounts(RangeReporter(tier="consumer:g", instance="i", sender=topic, positions=ReportedPositions()))
    counts.begin(TopicPartition("t", 0), 0, None)
    counts.count(Message("t", 0, 0, 1, timestamp_ms, None, b"x", ()), is_held=True)
    counts.tell({TopicPartition("t", 0): 1}, 1_000)
    assert [report.windows.keys() for report in topic.ranges if report.windows] == [{window_start_ms(timestamp_ms)}]


def test_what_is_unusable_is_dated_by_itself_then_by_its_neighbour_then_by_the_clock() -> None:
    assert dated(5, previous_ms=7, clock_ms=9) == (5, "record")
    assert dated(None, previous_ms=7, clock_ms=9) == (7, "previous")
    assert dated(None, previous_ms=None, clock_ms=9) == (9, "clock")
