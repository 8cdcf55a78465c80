"""Batches are bounded, together exactly what is new, and nothing waits for a huge topic."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.all_topics.fair_batches import FairBatches, NewRecords, cut
from headrace.spark.source.offset_ranges import OffsetRange
from tests.support.stored_rows import span

LIMITS = {"batch_topics": 4, "batch_bytes": 1_000, "topic_bytes": 300}

ranges = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 900)), min_size=1, max_size=4).map(
    lambda found: tuple(span(number, begin, begin + length) for number, (begin, length) in enumerate(found))
)
topics = st.lists(st.tuples(ranges, st.integers(1, 40)), max_size=12).map(
    lambda found: [
        NewRecords(topic=f"t{number}", ranges=mine, bytes_per_offset=density) for number, (mine, density) in enumerate(found)
    ]
)


def batches_of(news: list[NewRecords], **limits: int) -> list[list[NewRecords]]:
    fair = FairBatches(news, **{**LIMITS, **limits})
    return list(iter(fair.next_batch, []))


def offsets(ranges: tuple[OffsetRange, ...]) -> list[tuple[int, int]]:
    return [(one.partition, offset) for one in ranges for offset in range(one.from_offset, one.to_offset)]


@given(topics)
def test_the_portions_of_a_topic_follow_each_other_and_are_together_what_is_new(news: list[NewRecords]) -> None:
    batches = batches_of(news)
    for whole in news:
        portions = [one for batch in batches for one in batch if one.topic == whole.topic]
        read = [offset for portion in portions for offset in offsets(portion.ranges)]
        assert sorted(read) == sorted(offsets(whole.ranges))
        assert len(set(read)) == len(read)
        for before, after in pairwise(portions):
            assert [one.to_offset for one in before.ranges] == [one.from_offset for one in after.ranges]


@given(topics)
def test_a_batch_is_bounded_and_has_a_topic_once(news: list[NewRecords]) -> None:
    for batch in batches_of(news):
        assert len(batch) <= LIMITS["batch_topics"]
        assert len({one.topic for one in batch}) == len(batch)
        for portion in batch:
            # One offset of each partition is what a cut may be above: none can be halved.
            assert portion.size_bytes <= LIMITS["topic_bytes"] + portion.bytes_per_offset * len(portion.ranges)
        assert len(batch) == 1 or sum(one.size_bytes for one in batch) <= LIMITS["batch_bytes"]


@given(topics)
def test_no_topic_gets_a_portion_more_than_another_that_still_waits(news: list[NewRecords]) -> None:
    turns = dict.fromkeys((one.topic for one in news), 0)
    left = {one.topic: len([1 for batch in batches_of(news) for got in batch if got.topic == one.topic]) for one in news}
    for batch in batches_of(news):
        for portion in batch:
            others = [turns[topic] for topic in turns if turns[topic] < left[topic]]
            assert turns[portion.topic] == min(others)
            turns[portion.topic] += 1


def test_a_huge_topic_does_not_keep_small_ones_waiting() -> None:
    huge = NewRecords(topic="a-huge", ranges=(span(0, 0, 100_000),))
    small = [NewRecords(topic=f"small-{number}", ranges=(span(0, 0, 10),)) for number in range(9)]
    order = [[one.topic for one in batch] for batch in batches_of([huge, *small])]
    assert order[2][-1] == "a-huge", "after all that are smaller"
    assert {topic for batch in order[:3] for topic in batch} == {"a-huge", *(one.topic for one in small)}
    assert all(batch == ["a-huge"] for batch in order[3:])


def test_a_thousand_small_topics_share_few_batches() -> None:
    small = [NewRecords(topic=f"t{number}", ranges=(span(0, 0, 10),)) for number in range(1_000)]
    assert len(batches_of(small, batch_topics=64, batch_bytes=1 << 20)) == 16


def test_a_topic_that_is_dropped_does_not_come_again_and_one_put_back_comes_whole() -> None:
    huge, small = NewRecords(topic="a", ranges=(span(0, 0, 1_000),)), NewRecords(topic="b", ranges=(span(0, 0, 10),))
    fair = FairBatches([huge, small], **LIMITS)
    first = {one.topic: one for one in fair.next_batch()}
    fair.put_back(first["a"])
    fair.put_back(first["b"])
    assert fair.topics() == ["a", "b"]
    again = [one for batch in iter(fair.next_batch, []) for one in batch if one.topic == "a"]
    assert [offset for one in again for offset in offsets(one.ranges)] == offsets(huge.ranges)
    fair = FairBatches([huge, small], **LIMITS)
    fair.next_batch()
    fair.drop("a")
    assert fair.next_batch() == []


def test_a_topic_of_which_only_the_gap_is_new_is_a_portion_without_bytes() -> None:
    expired = NewRecords(topic="gone", ranges=(span(0, 70, 70),))
    assert batches_of([expired]) == [[expired]]
    assert cut(expired, 10) == (expired, None)
