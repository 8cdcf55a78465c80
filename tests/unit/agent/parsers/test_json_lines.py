"""JSON lines: what is an event, and what goes to quarantine with which reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.parsers.event_times import TimeFormat
from headrace.agent.parsers.json_lines import JsonLinesParser
from headrace.agent.parsers.parser import UnparsableLine
from headrace.sdk.event_schema import event_schema, nullable

SCHEMA = event_schema("Sale", [{"name": "item", "type": "string"}, nullable("count", "long")])


def parser(*, drop_unknown: bool = False, replace_invalid: bool = False, time_field: str | None = "at") -> JsonLinesParser:
    return JsonLinesParser(
        SCHEMA,
        time_field=time_field,
        time_format=TimeFormat("iso8601"),
        drop_unknown=drop_unknown,
        replace_invalid=replace_invalid,
    )


def test_an_object_is_an_event_and_its_time_leaves_it() -> None:
    parsed = parser().parse(b'{"at": "2015-05-17T10:05:03.250Z", "item": "caf\xc3\xa9", "count": 2}\r')
    assert parsed == ({"item": "café", "count": 2}, 1_431_857_103_250)


def test_without_a_time_field_lines_have_no_time() -> None:
    assert parser(time_field=None).parse(b'{"item": "a"}') == ({"item": "a"}, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "JSON list"),
        (b"null", "NoneType"),
        (b'{"item": "a"}', "no 'at'"),
        (b'{"at": "yesterday", "item": "a"}', "no time"),
        (b'{"at": true, "item": "a"}', "no time"),
        (b'{"at": "2015-05-17", "item": "a", "color": 1}', "no color"),
        (b'{"at": "2015-05-17", "item": "a", "item": "b"}', "'item' twice"),
        (b'{"at": "2015-05-17", "item": "a", "count": NaN}', "NaN"),
        (b'{"at": "2015-05-17", "item": "\xe4"}', "not UTF-8"),
        (b'{"at": "2015-05-17", "item": "a\x00"}', "not JSON"),
        (b'{"count": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_event_is_refused_with_its_reason(line: bytes, reason: str) -> None:
    with pytest.raises(UnparsableLine, match=reason):
        parser().parse(line)
    parser().time_of(line)


def test_unknown_names_and_invalid_bytes_are_taken_where_the_settings_say_so() -> None:
    assert parser(drop_unknown=True).parse(b'{"at": "2015-05-17", "item": "a", "b": 1}').event == {"item": "a"}
    assert parser(replace_invalid=True).parse(b'{"at": "2015-05-17", "item": "\xe4"}').event == {"item": "\ufffd"}


def test_the_time_of_a_refused_object_is_found() -> None:
    assert parser().time_of(b'{"at": "2015-05-17T10:05:03Z", "color": 1}') == 1_431_857_103_000
    assert parser().time_of(b"[]") is None


@given(st.binary(max_size=60))
def test_no_bytes_make_it_fail(junk: bytes) -> None:
    for line in (junk, b'{"at": ' + junk + b"}"):
        parser().time_of(line)
        try:
            parser().parse(line)
        except UnparsableLine:
            pass
