"""Regular expressions with named groups as parsers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.parsers.event_times import TimeFormat
from headrace.agent.parsers.named_groups import NamedGroupsParser, PatternRefused
from headrace.agent.parsers.parser import UnparsableLine
from headrace.sdk.encoding import EventEncoder

PATTERN = r"(?P<at>\S+ \S+) (?P<level>[A-Z]+) (?P<took>\S+)(?: (?P<ok>\S+))?"


def parser(pattern: str = PATTERN, types: dict[str, str] | None = None, time_group: str | None = "at") -> NamedGroupsParser:
    return NamedGroupsParser(
        pattern,
        name="Step",
        types={"took": "double", "ok": "boolean"} if types is None else types,
        time_group=time_group,
        time_format=TimeFormat("%Y-%m-%d %H:%M:%S", "Europe/Berlin"),
    )


def test_groups_are_fields_of_their_types() -> None:
    parsed = parser().parse(b"2015-05-17 12:05:03 INFO 1.5 TRUE\r")
    assert parsed == ({"level": "INFO", "took": 1.5, "ok": True}, 1_431_857_103_000)
    assert parser().parse(b"2015-05-17 12:05:03 INFO -").event == {"level": "INFO", "took": None, "ok": None}


def test_its_schema_takes_its_events() -> None:
    one = parser()
    parsed = one.parse(b"2015-05-17 12:05:03 INFO 1.5 0")
    assert EventEncoder(one.schema, "s").encode(parsed.event, parsed.time_ms)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "does not match"),
        (b"2015-05-17 12:05:03 INFO 1.5 true and more", "does not match"),
        (b"2015-05-17 12:05:03 INFO 1_0", "took is '1_0', no double"),
        (b"2015-05-17 12:05:03 INFO nan", "no double"),
        (b"2015-05-17 12:05:03 INFO 1 maybe", "no boolean"),
        (b"2015-02-31 12:05:03 INFO 1", "no time of the format"),
        (b"2015-05-17 12:05:03 INFO 1 \xff", "not UTF-8"),
    ],
)
def test_what_is_no_event_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(UnparsableLine, match=reason):
        parser().parse(line)


def test_the_time_of_a_refused_line_is_found_where_the_pattern_matches() -> None:
    assert parser().time_of(b"2015-05-17 12:05:03 INFO nan") == 1_431_857_103_000
    assert parser().time_of(b"nothing") is None


@pytest.mark.parametrize(
    ("pattern", "types", "reason"),
    [
        ("(", {}, "not a regular expression"),
        (r"\S+", {}, "no named group"),
        (r"(?P<at>.)(?P<ä>.)", {}, "no field of an Avro schema"),
        (r"(?P<at>.)(?P<server>.)", {}, "name of a field that every event has"),
        (r"(?P<at>.)", {"size": "int"}, "no group size"),
        (r"(?P<level>.)", {}, "no group at"),
        (r"(?P<at>.)(?P<a>.)", {"a": "date"}, "give one of string, int"),
    ],
)
def test_a_pattern_that_yields_no_events_is_refused_at_the_start(pattern: str, types: dict[str, str], reason: str) -> None:
    with pytest.raises(PatternRefused, match=reason):
        parser(pattern, types)


@given(st.binary(max_size=40))
def test_no_bytes_make_it_fail(junk: bytes) -> None:
    one = parser(r"(?P<at>.*?)\|(?P<n>.*)", {"n": "long"})
    for line in (junk, b"2015-05-17 12:05:03|" + junk):
        one.time_of(line)
        try:
            one.parse(line)
        except UnparsableLine:
            pass
