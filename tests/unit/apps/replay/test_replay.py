"""What a replay does with each line, with stops, rates and files that are not whole.

The logger is a double: the SDK has tests of its own.
"""

import gzip
from pathlib import Path
from typing import Any

import pytest

from headrace.apps.replay.log_lines import LINE_LIMIT_BYTES, LogFile, LogUnreadable
from headrace.apps.replay.replay import Replay, ReplayResult
from headrace.errors import HeadraceError
from headrace.runtime.clock import ManualClock
from headrace.runtime.lifecycle import StopSignal
from headrace.wire.quarantine_record import FileOrigin
from tests.support import access_logs

NOW_MS = 1_800_000_000_000
WINDOW_MS = 600_000


class LoggerDouble:
    def __init__(self) -> None:
        self.events: list[tuple[dict[str, Any], int]] = []
        self.quarantined: list[dict[str, Any]] = []
        self.takes = True
        self.close_error: HeadraceError | None = None
        self.log_error: HeadraceError | None = None
        self.is_closed = False

    @property
    def acknowledged_count(self) -> int:
        return len(self.events)

    def log(self, event: dict[str, Any], /, *, event_time_ms: int) -> bool:
        if self.log_error is not None:
            raise self.log_error
        if self.takes:
            self.events.append((event, event_time_ms))
        return self.takes

    def quarantine(self, payload: bytes, /, **facts: Any) -> None:
        self.quarantined.append({"payload": payload, **facts})

    def close(self) -> None:
        self.is_closed = True
        if self.close_error is not None:
            raise self.close_error


class PassingTime(StopSignal):
    """Never a stop; waiting moves the clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout_ms: int) -> bool:
        self._clock.advance(timeout_ms)
        return False


def good(minute: int = 5, path: str = "/") -> bytes:
    return f'1.2.3.4 - - [17/May/2015:10:{minute:02}:00 +0000] "GET {path} HTTP/1.1" 200 1 "-" "-"\n'.encode()


CUT = b'1.2.3.4 - - [17/May/2015:11:15:00 +0000] "GET / HTTP/1.1" 200 1 "-" "cur\n'
AT_10 = 1_431_856_800_000


def replayed(path: Path, logger: LoggerDouble, **options: Any) -> ReplayResult:
    options = {"stop": StopSignal(), "clock": ManualClock(NOW_MS), **options}
    return Replay(logger, path, **options).run()


@pytest.fixture
def logger() -> LoggerDouble:
    return LoggerDouble()


def test_each_line_is_sent_at_its_own_time(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good(5, "/a") + good(15, "/b") + good(16, "/c"))
    result = replayed(log, logger)
    assert [(event["path"], at) for event, at in logger.events] == [
        ("/a", AT_10 + 300_000),
        ("/b", AT_10 + 900_000),
        ("/c", AT_10 + 960_000),
    ]
    assert (result.lines, result.sent, result.quarantined, len(result.windows)) == (3, 3, 0, 2)
    assert result.is_whole
    assert logger.is_closed


def test_a_bad_line_is_quarantined_with_its_address_and_fails_nothing(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good() + CUT + good())
    result = replayed(log, logger)
    assert (result.sent, result.quarantined, result.is_whole) == (2, 1, True)
    told = logger.quarantined[0]
    assert told["payload"] == CUT.rstrip(b"\n")
    assert told["origin"] == FileOrigin(file=str(log), line=2)
    assert (told["code"], told["stage"]) == ("unparsable_line", "replay")
    assert "line 2" in told["reason"]
    assert (told["window_start_ms"], told["window_from"]) == (AT_10 + 3_600_000 + 600_000, "record")


def test_the_window_of_a_bad_line_is_its_own_else_its_neighbour_s_else_the_clock_s(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(b"junk\n" + good(25) + b"\n" + CUT)
    replayed(log, logger)
    assert [(one["window_from"], one["window_start_ms"]) for one in logger.quarantined] == [
        ("clock", NOW_MS - NOW_MS % WINDOW_MS),
        ("previous", AT_10 + 1_200_000),
        ("record", AT_10 + 4_200_000),
    ]


def test_a_line_without_end_far_too_long_is_quarantined_as_its_head(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good() + b"x" * (5 * LINE_LIMIT_BYTES) + b"\n" + good())
    result = replayed(log, logger)
    assert (result.lines, result.sent, result.quarantined) == (3, 2, 1)
    assert len(logger.quarantined[0]["payload"]) == LINE_LIMIT_BYTES


def test_a_last_line_without_line_end_is_a_line(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good() + good().rstrip(b"\n"))
    assert replayed(log, logger).sent == 2


def test_an_empty_log_is_sealed_and_whole(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.touch()
    assert replayed(log, logger) == ReplayResult(is_sealed=True)


def test_a_packed_log_is_read_as_the_plain_one(tmp_path: Path, logger: LoggerDouble) -> None:
    plain = access_logs.generate(tmp_path / "plain.log", lines=500, hours=2, seed=7, bad_every=100)
    packed = tmp_path / "packed.log.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    other = LoggerDouble()
    assert replayed(plain, logger) == replayed(packed, other)
    assert logger.events == other.events


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_packed_log_that_is_not_whole_says_behind_which_line_and_seals_the_rest(
    tmp_path: Path, logger: LoggerDouble, damage: str
) -> None:
    plain = access_logs.generate(tmp_path / "plain.log", lines=5_000, hours=2, seed=7)
    packed = bytearray(gzip.compress(plain.read_bytes()))
    if damage == "cut":
        del packed[len(packed) // 2 :]
    else:
        packed[len(packed) // 2 : len(packed) // 2 + 40] = b"\xff" * 40
    log = tmp_path / "packed.log.gz"
    log.write_bytes(packed)
    result = replayed(log, logger)
    assert not result.is_whole
    assert result.is_sealed
    assert result.stopped_at_line == result.lines > 0
    assert f"behind line {result.lines}" in result.failures[0]


def test_a_file_that_is_not_there_is_told_at_once(tmp_path: Path, logger: LoggerDouble) -> None:
    with pytest.raises(LogUnreadable, match="No such file"):
        replayed(tmp_path / "no.log", logger)


def test_a_stop_seals_what_was_sent_and_names_the_line(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good() * 10)
    stop = StopSignal()

    def log_and_stop(event: dict[str, Any], /, *, event_time_ms: int) -> bool:
        logger.events.append((event, event_time_ms))
        if len(logger.events) == 4:
            stop.set()
        return True

    logger.log = log_and_stop  # type: ignore[method-assign]
    result = replayed(log, logger, stop=stop)
    assert (result.sent, result.stopped_at_line, result.is_sealed, result.is_whole) == (4, 4, True, False)


def test_a_rate_slows_the_replay(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good() * 60)
    clock = ManualClock(NOW_MS)
    replayed(log, logger, rate=200, clock=clock, stop=PassingTime(clock))
    assert clock.monotonic_ms() - NOW_MS == pytest.approx(59 * 1000 / 200, abs=5)


def test_a_stop_ends_the_wait_for_a_line_s_turn(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good() * 3)
    stop = StopSignal()
    stop.set()
    result = replayed(log, logger, stop=stop, rate=0.001)
    assert (result.sent, result.stopped_at_line) == (0, 0)


def test_lines_that_find_no_room_are_counted_as_dropped(tmp_path: Path, logger: LoggerDouble) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good() * 3)
    logger.takes = False
    result = replayed(log, logger)
    assert (result.sent, result.dropped, result.is_whole) == (0, 3, False)


@pytest.mark.parametrize("where", ["log_error", "close_error"])
def test_a_logger_that_fails_makes_the_replay_fail_with_its_reason(tmp_path: Path, logger: LoggerDouble, where: str) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(good())
    setattr(logger, where, HeadraceError("no broker answers"))
    result = replayed(log, logger)
    assert not result.is_whole
    assert "no broker answers" in result.failures[0]
    assert logger.is_closed


def test_the_progress_grows_to_the_whole_file(tmp_path: Path, logger: LoggerDouble) -> None:
    log = access_logs.generate(tmp_path / "some.log", lines=2_000, hours=2, seed=7)
    told: list[tuple[int, float]] = []
    replayed(log, logger, on_progress=lambda lines, share: told.append((lines, share)))
    assert told == sorted(told)
    assert 0.8 < told[-1][1] <= 1.0


def test_reading_keeps_no_more_than_a_line(tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_bytes(b"y" * (3 * LINE_LIMIT_BYTES))
    with LogFile(log) as opened:
        lines = list(opened.lines())
    assert [(line.number, len(line.content), line.is_too_long) for line in lines] == [(1, LINE_LIMIT_BYTES, True)]


def test_sent_is_what_the_cluster_acknowledged_not_what_was_handed_over(tmp_path: Path, logger: LoggerDouble) -> None:
    class Refused(LoggerDouble):
        acknowledged_count = 1

    log = tmp_path / "access.log"
    log.write_bytes(good(5, "/a") + good(15, "/b") + good(16, "/c"))
    result = replayed(log, Refused())
    assert (result.taken, result.sent) == (3, 1)
