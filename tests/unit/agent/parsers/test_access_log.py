"""What a line of a combined-format log means, and which lines are none."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent.parsers.access_log import AccessLogLine, UnparsableLine, event_time_of, parse_line
from headrace.sdk.access_log_schema import ACCESS_LOG_SCHEMA
from tests.support import access_logs

STAMP = "[17/May/2015:10:05:03 +0000]"
STAMP_MS = 1_431_857_103_000


def line(
    *, user: str = "-", stamp: str = STAMP, request: str = "GET /a HTTP/1.1", tail: str = '200 17 "-" "curl/8"', end: str = "\n"
) -> bytes:
    return f'83.149.9.216 - {user} {stamp} "{request}" {tail}{end}'.encode()


def test_a_line_tells_all_of_the_request() -> None:
    told = parse_line(line(user="ada", tail='200 203023 "http://a.example/?q=1" "Mozilla/5.0 (X11)"'))
    assert told == AccessLogLine(
        time_ms=STAMP_MS,
        client_ip="83.149.9.216",
        ident=None,
        user="ada",
        method="GET",
        path="/a",
        protocol="HTTP/1.1",
        status=200,
        size_bytes=203_023,
        referrer="http://a.example/?q=1",
        user_agent="Mozilla/5.0 (X11)",
    )


@pytest.mark.parametrize(
    ("stamp", "time_ms"),
    [
        ("[17/May/2015:12:05:03 +0200]", STAMP_MS),
        ("[17/May/2015:04:35:03 -0530]", STAMP_MS),
        ("[29/Feb/2024:00:00:00 +0000]", 1_709_164_800_000),
        ("[01/Jan/1970:00:00:00 +0000]", 0),
    ],
)
def test_the_zone_is_taken_into_account(stamp: str, time_ms: int) -> None:
    assert parse_line(line(stamp=stamp)).time_ms == time_ms


@pytest.mark.parametrize(
    ("request_line", "parts"),
    [
        ("POST /x?y=z HTTP/2", ("POST", "/x?y=z", "HTTP/2")),
        ("GET /", ("GET", "/", "HTTP/0.9")),
        ("GET /with a space HTTP/1.0", ("GET", "/with a space", "HTTP/1.0")),
        ("-", ("-", "-", "-")),
        (r"\x16\x03\x01", ("-", r"\x16\x03\x01", "-")),
        (r"GET /\"quoted\" HTTP/1.1", ("GET", '/"quoted"', "HTTP/1.1")),
    ],
)
def test_the_request_line_is_taken_apart(request_line: str, parts: tuple[str, ...]) -> None:
    told = parse_line(line(request=request_line))
    assert (told.method, told.path, told.protocol) == parts


def test_escapes_inside_quotes_are_undone_as_apache_writes_them() -> None:
    told = parse_line(line(tail=r'304 - "a\"b\\c\td" "\xe4\xff"'))
    assert (told.referrer, told.user_agent, told.size_bytes) == ('a"b\\c\td', r"\xe4\xff", None)


def test_bytes_that_are_no_utf_8_become_backslash_escapes() -> None:
    told = parse_line(b"1.2.3.4 - - " + STAMP.encode() + b' "GET /\xe4\xff HTTP/1.1" 200 1 "-" "caf\xc3\xa9 \xe9"')
    assert (told.path, told.user_agent) == (r"/\xe4\xff", "café \\xe9")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_line_s_end_does_not_matter(end: str) -> None:
    assert parse_line(line(end=end)).user_agent == "curl/8"


def test_a_user_may_hold_spaces() -> None:
    assert parse_line(line(user="ada b. lovelace")).user == "ada b. lovelace"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (line(tail='200 17 "-" "curl/8'), "not closed"),
        (line(tail=r'200 17 "-" "curl/8\"'), "not closed"),
        (line(tail='200 17 "-"'), "missing"),
        (line(tail='200 17 "-" "curl/8" extra'), "combined format"),
        (line(tail='20 17 "-" "curl/8"'), "combined format"),
        (line(tail='200 -17 "-" "curl/8"'), "combined format"),
        (line(stamp="[32/May/2015:10:05:03 +0000]"), "no time stamp"),
        (line(stamp="[17/Mai/2015:10:05:03 +0000]"), "no time stamp"),
        (line(stamp="[17/May/1969:10:05:03 +0000]"), "no time stamp"),
        (line(stamp="[]"), "time stamp"),
        (line(stamp="[17/May/2015:10:05:03 +0000]".replace("1", "١")), "time stamp"),
        (b"\x00\xff\xfe binary", "time stamp"),
    ],
)
def test_what_is_no_line_of_the_format_is_refused_with_its_reason(bad: bytes, reason: str) -> None:
    with pytest.raises(UnparsableLine, match=reason):
        parse_line(bad)


def test_the_time_of_a_cut_line_is_read_all_the_same() -> None:
    assert event_time_of(line(tail='200 17 "-" "cur')) == STAMP_MS
    assert event_time_of(b"nothing here") is None
    assert event_time_of(b"[32/May/2015:10:05:03 +0000]") is None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_whatever_make_the_parser_fail(junk: bytes) -> None:
    for text in (junk, line()[:40] + junk, line(request=junk.decode("latin-1"))):
        try:
            parse_line(text)
        except UnparsableLine:
            event_time_of(text)


@settings(max_examples=200, deadline=None)
@given(cut=st.integers(0, len(line()) - 2))
def test_a_line_cut_anywhere_does_not_parse(cut: int) -> None:
    with pytest.raises(UnparsableLine):
        parse_line(line()[:cut])


def test_a_whole_log_agrees_with_the_counts_made_from_the_file_alone(tmp_path: Path) -> None:
    log, cut_line = access_logs.real_or_like_it(tmp_path)
    counts: Counter[int] = Counter()
    refused = []
    with log.open("rb") as file:
        for number, text in enumerate(file, 1):
            try:
                time_ms = parse_line(text).time_ms
            except UnparsableLine:
                refused.append(number)
                time_ms = event_time_of(text) or 0
            counts[time_ms - time_ms % access_logs.WINDOW_MS] += 1
    assert refused == [cut_line]
    assert counts == access_logs.window_counts(log)


def test_the_event_has_exactly_the_schema_s_fields() -> None:
    logger_s = {"event_time", "server"}
    assert set(parse_line(line()).event()) | logger_s == {field["name"] for field in ACCESS_LOG_SCHEMA["fields"]}
