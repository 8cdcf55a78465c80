"""Lines to records: where the refused ones stood, and by which time they are counted."""

import json
from pathlib import Path

import pytest

from headrace.agent.parsers.access_log import AccessLogParser, UnparsableLine, event_time_of, parse_line
from headrace.agent.tail.line_encoder import LineEncoder, LinesAt
from headrace.runtime.clock import ManualClock
from headrace.sdk.access_log_schema import ACCESS_LOG_SCHEMA
from headrace.sdk.encoding.event_encoder import EventEncoder
from headrace.wire.quarantine_record import FileOrigin, QuarantineRecord
from tests.support import access_logs
from tests.support.tailing import HOST, Tailing, settings

NOW_MS = 1_800_000_000_000


def test_the_real_log_gives_the_rows_and_the_refusals_of_a_replay(tmp_path: Path) -> None:
    log, cut_line = access_logs.real_or_like_it(tmp_path)
    section = settings(tmp_path, paths=[str(log)], parser="access_log", topic="access_log")
    tailing = Tailing(section, ManualClock(NOW_MS), chunk_bytes=100_000)
    tailing.run_dry()
    encoder = EventEncoder(ACCESS_LOG_SCHEMA, HOST)
    rows, refused = [], []
    for number, line in enumerate(log.read_bytes().splitlines(keepends=True), 1):
        try:
            request = parse_line(line)
            rows.append(encoder.encode(request.event(), request.time_ms))
        except UnparsableLine as error:
            refused.append((number, f"line {number}: {error}", line.rstrip(b"\r\n"), event_time_of(line)))
    assert tailing.rows == rows
    assert [number for number, *_ in refused] == [cut_line]
    told = [(one.origin.line, one.reason, one.payload) for one in tailing.quarantined if isinstance(one.origin, FileOrigin)]
    assert told == [one[:3] for one in refused]
    (quarantined,) = tailing.quarantined
    assert quarantined.window_start_ms == (refused[0][3] or 0) // 600_000 * 600_000
    assert isinstance(quarantined.origin, FileOrigin)
    assert quarantined.origin.offset is not None
    assert log.read_bytes()[quarantined.origin.offset :].startswith(quarantined.payload)


def encoded(lines: list[bytes], *, too_long: frozenset[int] = frozenset()) -> tuple[list[int], list[QuarantineRecord]]:
    encoder = LineEncoder(AccessLogParser(), topic="t", server_name="s", line_limit_bytes=300)
    at = LinesAt(path="/l", file_id="1.2", offset=100, line=7, previous_ms=None, at_ms=NOW_MS)
    found = encoder.encode(lines, too_long, (), at)
    return [record.timestamp_ms for record in found.records], found.quarantined


def line(second: int) -> bytes:
    return f'1.2.3.4 - - [17/May/2015:10:05:0{second} +0000] "GET / HTTP/1.1" 200 1 "-" "-"'.encode()


def test_a_refused_line_is_counted_by_its_own_time_else_the_line_s_before_else_the_clock() -> None:
    at = 1_431_857_100_000
    times, refused = encoded([b"nonsense", line(1), b"", line(2)[:-9] + b'"open'])
    assert times == [at + 1_000]
    assert [(one.window_from, one.origin) for one in refused] == [
        ("clock", FileOrigin(file="/l", line=8, offset=100, file_id="1.2")),
        ("previous", FileOrigin(file="/l", line=10, offset=100 + 9 + len(line(1)) + 1, file_id="1.2")),
        ("record", FileOrigin(file="/l", line=11, offset=100 + 9 + len(line(1)) + 2, file_id="1.2")),
    ]


def test_of_a_line_that_is_too_long_the_beginning_is_kept() -> None:
    times, (refused,) = encoded([b"x" * 400, line(1)], too_long=frozenset({0}))
    assert len(times) == 1
    assert (refused.code, refused.payload) == ("line_too_long", b"x" * 300)
    assert "longer than 300 bytes" in refused.reason


def test_an_event_that_is_not_of_its_schema_is_refused_with_the_field(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text('{"n": "one", "at": 1000}\n{"n": 1, "at": 2000}\n{"n": null, "at": 3000}\n')
    section = settings(tmp_path, parser="json", fields={"n": "long"}, time="at", time_format="epoch_ms")
    tailing = Tailing(section, ManualClock(NOW_MS))
    tailing.run_dry()
    assert len(tailing.rows) == 2
    (refused,) = tailing.quarantined
    assert (refused.code, refused.window_from) == ("schema_mismatch", "record")
    assert "field 'n'" in refused.reason
    assert json.loads(refused.to_json())["origin"]["line"] == 1


@pytest.mark.parametrize("chunk_bytes", [10, 1_000])
def test_lines_without_a_time_get_the_time_of_their_reading_also_when_they_are_read_again(
    tmp_path: Path, chunk_bytes: int
) -> None:
    clock = ManualClock(NOW_MS)
    (tmp_path / "a.log").write_text("one\ntwo\nthree\n")
    tailing = Tailing(settings(tmp_path), clock, chunk_bytes=chunk_bytes)
    tailing.scan()
    while tailing.read_one():
        clock.advance(1)
    planned = [record for _, _, chunk in tailing.planned for record in chunk.records]
    assert planned[0].timestamp_ms == NOW_MS
    clock.advance(60_000)
    tailing.kill()  # compares what is read again
    while tailing.acknowledge_one():
        pass
    assert tailing.lines() == ["one", "two", "three"]


def test_several_lines_are_one_record_and_numbers_go_by_lines(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    log = tmp_path / "a.log"
    log.write_bytes(b"ERROR a\n at x\n at \xff\nINFO b\nERROR c\n at z\n")
    section = settings(tmp_path, multiline={"start": "^[A-Z]", "timeout_ms": 5_000})
    tailing = Tailing(section, clock, chunk_bytes=24)
    tailing.run_dry()
    assert tailing.lines() == ["INFO b"]
    assert [one.origin for one in tailing.quarantined] == [
        FileOrigin(file=str(log), line=1, offset=0, file_id=next(iter(tailing.stored)).rpartition("#")[2])
    ]
    with log.open("a") as file:
        file.write(" at last\n")
    clock.advance(4_000)
    tailing.run_dry()
    clock.advance(4_000)
    tailing.kill()
    tailing.run_dry()
    assert tailing.lines() == ["INFO b"]
    clock.advance(6_000)
    tailing.run_dry()
    assert tailing.lines() == ["INFO b", "ERROR c\n at z\n at last"]
