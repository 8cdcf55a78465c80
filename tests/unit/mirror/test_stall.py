"""When a mirror makes no progress: behind, and not moved for too long. Values in, values out."""

from headrace.client.fetch.fetched import TopicPartition
from headrace.mirror import partition_copy, stall
from headrace.mirror.partition_copy import PartitionCopy, Phase
from headrace.mirror.stall import Progress, observed, stalled, why_stalled, why_unreported

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
STALL_MS = 1_000


def copy(to: int, trouble: str | None = None, source_end: int = 0) -> PartitionCopy:
    return PartitionCopy(phase=Phase.COPYING, counted_to=to, copied_to=to, sent_to=to, source_end=source_end, trouble=trouble)


def late(progress: Progress, now_ms: int) -> list[TopicPartition]:
    return stalled(progress, now_ms=now_ms, stall_after_ms=STALL_MS)


def test_a_level_mirror_never_stands_still_however_long_nothing_comes() -> None:
    progress = observed(Progress(), {A: copy(100)}, {A: (0, 100)}, 0)
    progress = observed(progress, {A: copy(100)}, {A: (0, 100)}, 10 * STALL_MS)
    assert late(progress, 10 * STALL_MS) == []
    assert (progress.lag_bytes, progress.stalled_since_ms) == (0, None)


def test_the_time_counts_from_when_the_source_grew_and_not_from_the_last_copy() -> None:
    progress = observed(Progress(), {A: copy(100)}, {A: (0, 100)}, 0)
    progress = observed(progress, {A: copy(100)}, {A: (0, 100)}, 5_000)
    progress = observed(progress, {A: copy(100)}, {A: (0, 150)}, 5_100)
    assert late(progress, 5_100) == []
    progress = observed(progress, {A: copy(100, "no answer")}, {A: (0, 180)}, 6_000)
    assert late(progress, 6_000) == [A]
    assert (progress.lag_bytes, progress.stalled_since_ms) == (80, 5_000)


def test_slow_is_not_still_and_moving_once_begins_the_time_anew() -> None:
    progress = observed(Progress(), {A: copy(0)}, {A: (0, 1_000)}, 0)
    for now_ms in range(0, 5 * STALL_MS, STALL_MS // 2):
        progress = observed(progress, {A: copy(1 + now_ms // 100)}, {A: (0, 1_000)}, now_ms)
        assert late(progress, now_ms) == []
    assert late(progress, 6 * STALL_MS) == [A]


def test_one_partition_that_stands_among_others_that_move_is_named() -> None:
    progress = observed(Progress(), {A: copy(10), B: copy(10)}, {A: (0, 50), B: (0, 50)}, 0)
    progress = observed(progress, {A: copy(10, "refused"), B: copy(40)}, {A: (0, 50), B: (0, 90)}, STALL_MS)
    names = late(progress, STALL_MS)
    assert names == [A]
    error = stall.last_error(progress, names, "no topics")
    assert error is not None
    assert (
        why_stalled(progress, names, error)
        == "has made no progress since 1970-01-01T00:00:00Z: refused (clicks-0, 40 bytes behind)"
    )


def test_a_topic_that_is_not_even_begun_is_behind_by_what_the_source_holds() -> None:
    progress = observed(Progress(), {}, {A: (30, 100)}, 0)
    progress = observed(progress, {}, {A: (30, 100)}, STALL_MS)
    assert late(progress, STALL_MS) == [A]
    assert progress.lag_bytes == 70
    assert "it waits" in str(why_stalled(progress, [A], "it waits"))


def test_what_the_copy_heard_counts_where_the_watch_has_heard_less() -> None:
    progress = observed(Progress(), {A: copy(10, source_end=25)}, {}, 0)
    assert progress.lag_bytes == 15


def test_a_copy_that_is_made_anew_has_moved() -> None:
    progress = observed(Progress(), {A: copy(90)}, {A: (0, 100)}, 0)
    progress = observed(progress, {A: copy(0)}, {A: (0, 100)}, STALL_MS)
    assert late(progress, STALL_MS) == []
    assert progress.lag_bytes == 100


def test_a_partition_that_is_gone_is_forgotten() -> None:
    progress = observed(Progress(), {A: copy(0)}, {A: (0, 100)}, 0)
    assert observed(progress, {}, {}, STALL_MS) == Progress()


def test_thousands_of_partitions_are_not_all_named() -> None:
    ends = {TopicPartition("many", number): (0, 1) for number in range(stall.NAMED + 4)}
    progress = observed(Progress(), {}, ends, 0)
    reason = why_stalled(progress, late(progress, STALL_MS), "no room")
    assert reason is not None
    assert "many-0, many-1" in reason
    assert "and 4 more" in reason
    assert why_stalled(progress, [], "no room") is None


def test_a_copy_that_stopped_with_an_error_stands_still_though_it_is_behind_by_nothing() -> None:
    """Names a fault: a source that lost its tail ends before the destination, so that `headrace status` said `ready` for ever."""
    ended = partition_copy.in_error(copy(100), Phase.SOURCE_BEHIND, "the source has lost its tail", 0)
    progress = observed(Progress(), {A: copy(100)}, {A: (0, 100)}, 0)
    progress = observed(progress, {A: ended}, {A: (0, 90)}, 500)
    assert progress.stalled_since_ms == 0
    assert late(progress, 500) == []
    progress = observed(progress, {A: ended}, {A: (0, 90)}, STALL_MS)
    assert late(progress, STALL_MS) == [A]
    assert "the source has lost its tail (clicks-0, 0 bytes behind)" in str(why_stalled(progress, [A], str(ended.trouble)))
    progress = observed(progress, {A: copy(100)}, {A: (0, 100)}, STALL_MS)
    assert late(progress, 9 * STALL_MS) == []


def test_reports_that_fail_for_too_long_are_told() -> None:
    """Names a fault: a mirror that copied and could not report to the audit was `ready`."""
    assert why_unreported(None, now_ms=9 * STALL_MS, stall_after_ms=STALL_MS) is None
    assert why_unreported((0, "no room"), now_ms=STALL_MS - 1, stall_after_ms=STALL_MS) is None
    told = why_unreported((0, "no room"), now_ms=STALL_MS, stall_after_ms=STALL_MS)
    assert told == "its reports do not reach the audit since 1970-01-01T00:00:00Z: no room"


def test_the_status_file_tells_lag_time_and_error_by_cluster() -> None:
    progress = observed(Progress(), {A: copy(10)}, {A: (0, 50)}, 7)
    said = stall.facts(progress, source="live:1", destination="offline:2", source_error="gone", error="full")
    assert said == {
        "source": {"bootstrap": "live:1", "last_error": "gone"},
        "destination": {"bootstrap": "offline:2", "lag_bytes": 40, "no_progress_since_ms": 7, "last_error": "full"},
    }
