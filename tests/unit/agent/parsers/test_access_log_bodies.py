"""The fast way of access-log lines writes the same bytes as the long way, or leaves the line to it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent.parsers.access_log import parse_line
from headrace.agent.parsers.access_log_bodies import LAYOUT, MOST_REMEMBERED, AccessLogBodies
from headrace.agent.parsers.parser import UnparsableLine
from headrace.agent.plan.events import NativeEvents
from headrace.sdk.access_log_schema import ACCESS_LOG_SCHEMA
from headrace.sdk.encoding import EventEncoder
from tests.support import access_logs

SERVER = "web-1"
ENCODER = EventEncoder(ACCESS_LOG_SCHEMA, SERVER)


def the_long_way(line: bytes) -> tuple[int, bytes] | None:
    try:
        request = parse_line(line)
    except UnparsableLine:
        return None
    return request.time_ms, ENCODER.encode(request.event(), request.time_ms)


def test_a_whole_log_gets_the_same_bodies_and_few_lines_go_the_long_way(tmp_path: Path) -> None:
    log, _ = access_logs.real_or_like_it(tmp_path)
    bodies = AccessLogBodies(SERVER)
    lines = log.read_bytes().splitlines()
    taken = [(bodies.encode(line), line) for line in lines]
    assert sum(body is not None for body, _ in taken) > len(lines) * 0.6
    assert [line for body, line in taken if body is not None and body != the_long_way(line)] == []


def words(alphabet: str, most: int = 6) -> st.SearchStrategy[str]:
    return st.text(alphabet, max_size=most)


LINES = st.builds(
    "{}{} {} {} {} {}{}{} {} {}{}{}".format,
    st.sampled_from(["", " ", "\x00"]),
    words('a.[ -"\\\t'),
    words("-a "),
    words("-b [] "),
    st.sampled_from(["[17/May/2015:10:05:03 +0000]", "[17/May/2015:10:05:03 -0230]", "[31/Feb/2015:10:05:03 +0000]", "[x]", ""]),
    st.sampled_from(['"', "", '" "']),
    st.sampled_from(
        ["GET / HTTP/1.1", "GET /a b HTTP/1.1", "GET /", "-", "", " / HTTP/1.1", "( / HTTP/1.1", "GET  HTTP/1.1", "G /\xe4 H"]
    ),
    st.sampled_from(['"', "", '\\"']),
    st.sampled_from(["200 17", "200 -", "2000 1", "20 1", "200 -1", "200  1", "200 1234567890123456789", "000 0"]),
    st.sampled_from(['"-" ', '"" ', '"http://a" ', '"a\\"b" ', '"-"  ', ""]),
    st.sampled_from(['"-"', '"curl/8"', '"caf\xe9"', '"a\x00b"', '"open', '"a" "b"', '"x" ']),
    st.sampled_from(["", "\r", " "]),
)  # fmt: skip


@settings(max_examples=2_000, deadline=None)
@given(text=LINES)
def test_whatever_the_fast_way_takes_is_what_the_long_way_makes(text: str) -> None:
    line = text.encode()
    body = AccessLogBodies(SERVER).encode(line)
    assert body is None or body == the_long_way(line)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=400))
def test_a_path_of_any_length_is_framed(path: str) -> None:
    line = f'1.2.3.4 - ada [17/May/2015:10:05:03 +0000] "GET /{path} HTTP/1.1" 200 1 "-" "-"'.encode()
    body = AccessLogBodies(SERVER).encode(line)
    assert (body is None) == any(letter in path for letter in ' "\\')
    assert body is None or body == the_long_way(line)


def test_the_tables_are_emptied_when_they_are_full() -> None:
    bodies = AccessLogBodies(SERVER)
    for number in range(MOST_REMEMBERED + 10):
        line = f'h{number} - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 {number} "{number}" "-"'.encode()
        assert bodies.encode(line) == the_long_way(line) if number % 500 == 0 else bodies.encode(line)
    assert max(len(bodies._clients), len(bodies._numbers), len(bodies._texts)) <= MOST_REMEMBERED
    day = 86_400
    for second in range(MOST_REMEMBERED + 10):
        at = f"{second % day // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        bodies.encode(f'h - - [17/May/2015:{at} +0000] "GET / HTTP/1.1" 200 1 "-" "-"'.encode())
    assert len(bodies._times) <= MOST_REMEMBERED


def test_the_layout_is_the_schema_s() -> None:
    assert tuple(field["name"] for field in ACCESS_LOG_SCHEMA["fields"]) == LAYOUT


@pytest.mark.needs("native")
@settings(max_examples=2_000, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=3))
def test_the_way_in_c_takes_what_the_way_in_python_takes(texts: list[str]) -> None:
    lines = [text.encode() for text in texts]
    check_in_c(lines)


@pytest.mark.needs("native")
@given(
    st.tuples(st.integers(0, 39), st.sampled_from(["Jan", "Feb", "Apr", "Dec", "dec", "Fob"]), st.integers(0, 9_999)),
    st.tuples(st.integers(0, 25), st.integers(0, 61), st.integers(0, 61)),
    st.tuples(st.sampled_from("+- "), st.integers(0, 99), st.integers(0, 70)),
)
def test_stamps_are_dated_in_c_as_in_python(
    date: tuple[int, str, int], time: tuple[int, int, int], zone: tuple[str, int, int]
) -> None:
    stamp = "{:02}/{}/{:04}:{:02}:{:02}:{:02} {}{:02}{:02}".format(*date, *time, *zone)
    check_in_c([f'1.2.3.4 - ada [{stamp}] "GET / HTTP/1.1" 200 1 "-" "-"'.encode()])


@pytest.mark.needs("native")
def test_a_whole_log_gets_the_same_bodies_in_c(tmp_path: Path) -> None:
    log, _ = access_logs.real_or_like_it(tmp_path)
    check_in_c(log.read_bytes().split(b"\n"))


def check_in_c(lines: list[bytes]) -> None:
    """Fails where the way in C takes another line than the one in Python, or makes another body of it."""
    bodies, events, index = AccessLogBodies(SERVER), NativeEvents(), 0
    found: list[tuple[int, bytes] | None] = []
    while index < len(lines):
        known = len(events)
        index, last_ms = events.native.take_access_log(lines, index, bodies.server)
        found += [(events[at].timestamp_ms, events[at].body) for at in range(known, len(events))]
        assert len(events) == known or last_ms == events[len(events) - 1].timestamp_ms
        if index < len(lines):
            found.append(None)
            index += 1
    assert found == [bodies.encode(line) for line in lines]
