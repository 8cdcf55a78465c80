"""A file that is not an access log is known by its first lines, and one with some bad lines is not mistaken for one."""

import gzip
import json
from pathlib import Path

import pytest

from headrace.apps.replay.log_format import LOOKED_AT, OtherFormat, check_format, sample
from tests.support import access_logs

GOOD = b'1.2.3.4 - - [17/May/2015:10:05:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
CUT = b'1.2.3.4 - - [17/May/2015:10:05:00 +0000] "GET / HTTP/1.1" 200 1 "-" "cur\n'
COMMON = b'1.2.3.4 - - [17/May/2015:10:05:00 +0000] "GET / HTTP/1.1" 200 1\n'


def written(folder: Path, content: bytes, name: str = "some.log") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_log_is_a_log_packed_or_not(tmp_path: Path) -> None:
    check_format(access_logs.generate(tmp_path / "a.log", lines=300, hours=1, seed=1))
    check_format(written(tmp_path, gzip.compress(GOOD * 3), "b.log.gz"))
    check_format(written(tmp_path, b""))


def test_some_bad_lines_are_for_the_quarantine(tmp_path: Path) -> None:
    path = written(tmp_path, CUT + b"\n" + GOOD * 3)
    check_format(path)
    found = sample(path)
    assert (found.line_count, found.good_count, found.first_bad) == (5, 3, CUT.decode().strip())


def test_another_format_is_named_with_its_first_line_what_is_wrong_and_what_is_expected(tmp_path: Path) -> None:
    lines = b"".join(json.dumps({"at": number, "path": "/"}).encode() + b"\n" for number in range(5_000))
    with pytest.raises(OtherFormat) as raised:
        check_format(written(tmp_path, lines))
    told = str(raised.value)
    assert f"0 of its first {LOOKED_AT} lines are" in told
    assert 'the first other line: {"at": 0, "path": "/"}' in told
    assert "line 1: it holds no time stamp" in told
    assert "expected: the combined format: host ident user [time]" in told


def test_the_common_format_is_told_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(OtherFormat, match="request, referrer or user agent is missing"):
        check_format(written(tmp_path, COMMON * 10))


def test_one_line_and_bytes_that_are_no_text_are_shown_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(OtherFormat, match=r"its only line is none.*\n.*\\x00\\x1b\[2J") as raised:
        check_format(written(tmp_path, b"\x00\x1b[2J" + b"x" * 100_000))
    assert len(str(raised.value)) < 1_000


def test_only_the_first_lines_are_read(tmp_path: Path) -> None:
    assert sample(written(tmp_path, GOOD * 60 + COMMON * 10_000)).line_count == LOOKED_AT
    assert sample(written(tmp_path, GOOD * 60 + COMMON * 10_000)).is_access_log
    assert not sample(written(tmp_path, GOOD * 40 + COMMON * 10_000)).is_access_log
