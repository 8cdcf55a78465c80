"""Events counted at the source: the log's own lines, the requests that were answered."""

import gzip
from pathlib import Path

from headrace.local.demo.source_counts import AnsweredRequests, SourceCounts, of_log

W = 600_000


def line(stamp: str) -> bytes:
    return f'10.0.0.1 - - [{stamp}] "GET / HTTP/1.1" 200 7 "-" "curl"\n'.encode()


AT_TEN = 1_431_856_800_000  # 17/May/2015:10:00:00 +0000


def test_lines_are_counted_in_the_window_of_their_own_time(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(
        line("17/May/2015:10:00:00 +0000")
        + line("17/May/2015:10:09:59 +0000")
        + line("17/May/2015:12:10:00 +0200")
        + line("17/May/2015:10:09:00 +0000").replace(b'"curl"', b'"cu')
        + b"no time at all\n"
        + line("31/Feb/2015:10:00:00 +0000")
        + line("17/May/1969:10:00:00 +0000")
        + b"[17/May/2015:10:00:00 +0000] and no line end"
    )
    assert of_log(log) == SourceCounts(in_window={AT_TEN: 4, AT_TEN + W: 1}, unplaced=3)
    assert of_log(log).total == 8
    packed = tmp_path / "access.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert of_log(packed) == of_log(log)


def test_a_line_longer_than_a_request_can_be_counts_once(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(b"x" * 200_000 + line("17/May/2015:10:00:00 +0000") + line("17/May/2015:10:00:00 +0000"))
    assert of_log(log) == SourceCounts(in_window={AT_TEN: 1}, unplaced=1)


def test_a_request_under_way_at_a_border_may_lie_in_either_window() -> None:
    answered = AnsweredRequests()
    answered.add(5, 5)
    answered.add(W - 1, W - 1)
    answered.add(W - 1, W)
    answered.add(7, 6)  # the clock was set back
    assert answered.counts() == SourceCounts(in_window={0: 2}, unplaced=2)
