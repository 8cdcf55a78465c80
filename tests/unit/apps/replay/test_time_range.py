"""Which times a log holds, before it is replayed."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent.parsers.access_log import UnparsableLine, event_time_of, parse_line
from headrace.apps.replay.log_lines import LogUnreadable
from headrace.apps.replay.replay import Replay
from headrace.apps.replay.time_range import HEAD_LINES, TOLD_EVERY_LINES, time_range
from headrace.runtime.clock import ManualClock
from headrace.runtime.lifecycle import StopSignal
from tests.unit.apps.replay.test_replay import AT_10, CUT, LoggerDouble, good


def never() -> bool:
    return False


def test_a_log_holds_the_times_of_all_its_lines_cut_ones_too(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(good(9) + b"no request\n" + good(5) + CUT)
    found = time_range(path, is_stopped=never)
    assert found.lines == 4
    assert found.between_ms == (AT_10 + 5 * 60_000, AT_10 + 75 * 60_000 + 1)


def test_a_log_has_the_same_head_under_another_name_and_when_it_has_grown_and_another_log_has_another(tmp_path: Path) -> None:
    heads = []
    for name, content in (
        ("a.log", good(9) * HEAD_LINES),
        ("b.log", good(9) * HEAD_LINES + good(5)),
        ("c.log", good(9) * (HEAD_LINES - 1) + good(5)),
    ):
        (tmp_path / name).write_bytes(content)
        heads.append(time_range(tmp_path / name, is_stopped=never).head)
    assert heads[0] == heads[1]
    assert heads[2] != heads[0]


def test_a_log_without_times_and_an_empty_one_have_none(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    for content, lines in ((b"", 0), (b"what\nis this\n", 2)):
        path.write_bytes(content)
        found = time_range(path, is_stopped=never)
        assert (found.lines, found.between_ms) == (lines, None)


def test_a_log_that_breaks_off_has_the_times_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(good(5) * 5_000)[:-20])
    found = time_range(path, is_stopped=never)
    assert 0 < found.lines <= 5_000
    assert found.between_ms is not None
    with pytest.raises(LogUnreadable):
        time_range(tmp_path / "none", is_stopped=never)


def test_a_stop_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(good() * 3 * TOLD_EVERY_LINES)
    shares: list[float] = []
    found = time_range(path, is_stopped=lambda: True, on_progress=lambda _, share: shares.append(share))
    assert found.lines == TOLD_EVERY_LINES
    assert len(shares) == 1


def test_lines_that_came_after_the_reading_are_not_replayed(tmp_path: Path) -> None:
    """Their times were not announced: they would be refused."""
    path = tmp_path / "access.log"
    path.write_bytes(good(5) + good(6))
    found = time_range(path, is_stopped=never)
    with path.open("ab") as file:
        file.write(good(59))
    logger = LoggerDouble()
    result = Replay(logger, path, stop=StopSignal(), clock=ManualClock(0), most_lines=found.lines).run()
    assert (result.lines, result.is_whole) == (2, True)
    assert found.between_ms is not None
    assert all(found.between_ms[0] <= at < found.between_ms[1] for _, at in logger.events)


@settings(max_examples=300)
@given(user=st.text(max_size=20), path=st.text(max_size=20), minute=st.integers(0, 99))
def test_the_time_of_a_request_is_the_one_that_is_announced(user: str, path: str, minute: int) -> None:
    line = f'1.2.3.4 - {user} [17/May/2015:10:{minute:02}:00 +0000] "GET {path} HTTP/1.1" 200 1 "-" "-"'.encode(errors="replace")
    try:
        assert parse_line(line).time_ms == event_time_of(line)
    except UnparsableLine:
        pass
