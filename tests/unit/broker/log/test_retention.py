"""Retention: age counts from the append at this broker, never from event time, and the log end stays."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.log import DeletedSegment, FolderFault, LogConfig, SegmentFacts
from headrace.broker.log.retention import expired
from headrace.broker.log.roll import must_roll
from headrace.broker.log.tools.check import check
from tests.support.small_logs import DAY_MS, MAY_2015_MS, NOW_MS, batch, fetched, open_log, values


def facts(*segments: tuple[int, int]) -> list[SegmentFacts]:
    """Return segments in a row from (size, last append)."""
    made, offset = [], 0
    for size_bytes, last_append_ms in segments:
        made.append(
            SegmentFacts(
                base_offset=offset,
                end_offset=offset + size_bytes,
                size_bytes=size_bytes,
                first_append_ms=last_append_ms,
                last_append_ms=last_append_ms,
            )
        )
        offset += size_bytes
    return made


def gone(
    segments: list[SegmentFacts], *, retention_ms: int = -1, retention_bytes: int = -1, up_to_offset: int | None = None
) -> int:
    return len(
        expired(segments, now_ms=1_000, retention_ms=retention_ms, retention_bytes=retention_bytes, up_to_offset=up_to_offset)
    )


def test_segments_past_their_time_go_oldest_first() -> None:
    segments = facts((10, 100), (10, 499), (10, 500), (10, 900))
    assert gone(segments, retention_ms=500) == 2


def test_a_young_segment_keeps_those_behind_it() -> None:
    assert gone(facts((10, 900), (10, 1), (10, 1)), retention_ms=500) == 0


def test_the_oldest_go_while_enough_bytes_stay() -> None:
    segments = facts((10, 0), (10, 0), (10, 0), (10, 0))
    assert [gone(segments, retention_bytes=size) for size in (0, 1, 10, 20, 25, 30, 31, 100)] == [4, 3, 3, 2, 1, 1, 0, 0]


def test_nothing_goes_when_nothing_is_limited() -> None:
    assert gone(facts((10, 0), (10, 0))) == 0


def test_the_active_segment_goes_when_its_time_has_come_unless_it_is_empty() -> None:
    assert gone(facts((10, 1), (10, 1)), retention_ms=500) == 2
    assert gone(facts((10, 1), (0, 1)), retention_ms=500) == 1
    assert gone(facts((0, 1)), retention_ms=500, retention_bytes=0) == 0


def test_what_is_not_yet_safe_elsewhere_stays() -> None:
    segments = facts((10, 1), (10, 1), (10, 1))
    assert [gone(segments, retention_ms=500, up_to_offset=offset) for offset in (9, 10, 25, 30)] == [0, 1, 2, 3]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1_000)), min_size=1, max_size=8),
    st.integers(-1, 1_000),
    st.integers(-1, 200),
)
@settings(max_examples=200)
def test_what_goes_is_a_run_from_the_oldest_and_each_of_it_has_a_reason(
    sizes: list[tuple[int, int]], retention_ms: int, retention_bytes: int
) -> None:
    segments = facts(*sizes)
    away = expired(segments, now_ms=1_000, retention_ms=retention_ms, retention_bytes=retention_bytes)
    assert away == segments[: len(away)]
    for index, segment in enumerate(away):
        too_old = retention_ms >= 0 and 1_000 - segment.last_append_ms > retention_ms
        enough_stays = retention_bytes >= 0 and sum(s.size_bytes for s in segments[index + 1 :]) >= retention_bytes
        assert too_old or enough_stays


@pytest.mark.parametrize(
    ("held_bytes", "advance", "now_ms", "rolls"),
    [
        (0, 5_000, 99_999, False),
        (900, 100, 0, False),
        (900, 101, 0, True),
        (1, 1, 999, False),
        (1, 1, 1_000, True),
        (1, 1, -5, False),
    ],
)
def test_a_segment_rolls_by_size_or_age_and_never_while_it_is_empty(
    held_bytes: int, advance: int, now_ms: int, rolls: bool
) -> None:
    answer = must_roll(
        held_bytes=held_bytes, advance=advance, segment_bytes=1_000, first_append_ms=0, segment_ms=1_000, now_ms=now_ms
    )
    assert answer is rolls


def test_wrong_settings_are_all_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"segment_bytes is 0.*retention_ms is -2"):
        LogConfig(segment_bytes=0, retention_ms=-2)


def test_years_old_events_survive_roll_restart_and_retention(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=150, retention_ms=7 * DAY_MS, segment_ms=DAY_MS)
    sent = [b"%d" % number for number in range(10)]
    for number, value in enumerate(sent):
        log.append(batch(value, timestamp_ms=MAY_2015_MS + number), NOW_MS)
    assert len(log.segments) > 3
    assert log.expire(NOW_MS + 6 * DAY_MS) == []
    log.close()
    again = open_log(tmp_path, retention_ms=7 * DAY_MS)
    assert again.expire(NOW_MS + 6 * DAY_MS) == []
    assert values(fetched(again)) == sent
    assert len(again.expire(NOW_MS + 8 * DAY_MS)) == len(log.segments)


def test_expired_segments_leave_their_names_and_the_log_starts_after_them(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64, retention_ms=DAY_MS)
    for days in (5, 4, 0):
        log.append(batch(b"%d" % days), NOW_MS - days * DAY_MS)
    deleted = log.expire(NOW_MS)
    assert [(segment.base_offset, segment.end_offset) for segment in deleted] == [(0, 69), (69, 138)]
    assert [path.name for path in tmp_path.glob("*.log*")] == [f"{138:020d}.log"]
    for again in (log, open_log(tmp_path)):
        assert (again.log_start_offset, again.log_end_offset) == (138, 207)
        assert values(fetched(again)) == [b"0"]
    assert check(tmp_path) == []


def test_the_log_end_outlives_the_expiry_of_everything_and_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=DAY_MS)
    end = log.append(batch(b"a"), NOW_MS - 2 * DAY_MS).next_offset
    assert len(log.expire(NOW_MS)) == 1
    assert log.expire(NOW_MS + 9 * DAY_MS) == []
    for again in (log, open_log(tmp_path)):
        assert (again.log_start_offset, again.log_end_offset, again.flushed_offset) == (end, end, end)
        assert again.read(end, 100) is None
    assert log.append(batch(b"b"), NOW_MS).next_offset == end + len(batch(b"b"))


def test_size_retention_keeps_at_least_what_was_asked_for(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64, retention_ms=-1, retention_bytes=200)
    for number in range(10):
        log.append(batch(b"%d" % number), NOW_MS)
    log.expire(NOW_MS)
    assert (len(log.segments), log.size_bytes) == (3, 207)


def test_a_region_is_readable_after_its_segment_was_deleted_and_the_log_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64, retention_ms=DAY_MS)
    log.append(batch(b"old"), NOW_MS - 9 * DAY_MS)
    log.append(batch(b"new"), NOW_MS)
    piece = log.read(0, 100)
    assert piece is not None
    before = piece.read()
    assert len(log.expire(NOW_MS)) == 1
    log.close()
    assert piece.read() == before
    fd = piece.fd
    del piece
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_files_may_be_erased_elsewhere_and_later(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64, retention_ms=DAY_MS)
    for days in (9, 8, 0):
        log.append(batch(b"a"), NOW_MS - days * DAY_MS)
    waiting: list[DeletedSegment] = []
    assert log.expire(NOW_MS, erase=waiting.append) == waiting
    assert [segment.path.exists() for segment in waiting] == [True, True]
    # A crash before the erasing leaves them to the next opening.
    assert len(fetched(open_log(tmp_path))) == 1
    assert [segment.path.exists() for segment in waiting] == [False, False]


def test_a_segment_that_cannot_be_deleted_is_an_error_and_stays_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, segment_bytes=64, retention_ms=DAY_MS)
    for days in (9, 0):
        log.append(batch(b"a"), NOW_MS - days * DAY_MS)

    def refuse(old: object, new: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        with pytest.raises(FolderFault, match="Operation not permitted"):
            log.expire(NOW_MS)
    assert len(fetched(log)) == 2
    assert len(log.expire(NOW_MS)) == 1


@pytest.mark.parametrize("restart", [None, "kill", "stop"])
def test_a_clock_that_went_back_and_comes_right_again_makes_nothing_old(tmp_path: Path, restart: str | None) -> None:
    log = open_log(tmp_path, retention_ms=DAY_MS)
    log.append(batch(b"a"), NOW_MS)
    log.append(batch(b"b"), 0)  # the machine's clock was reset
    if (job := log.checkpoint_job()) is not None:
        job.run()
    if restart == "stop":
        log.close()
    if restart is not None:
        if restart == "kill":
            os.utime(tmp_path / f"{0:020d}.log", ns=(0, 0))
        log = open_log(tmp_path, retention_ms=DAY_MS)
    assert log.expire(NOW_MS + 1_000) == []
    assert values(fetched(log)) == [b"a", b"b"]
    assert len(log.expire(NOW_MS + 2 * DAY_MS)) == 1
