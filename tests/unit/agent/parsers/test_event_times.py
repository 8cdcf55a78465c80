"""Times as lines give them."""

import pytest

from headrace.agent.parsers.event_times import TimeFormat, TimeFormatRefused
from headrace.agent.parsers.parser import UnparsableLine
from headrace.agent.parsers.raw_line import RawLineParser

MS = 1_431_857_103_000


@pytest.mark.parametrize(
    ("name", "zone", "value", "time_ms"),
    [
        ("iso8601", "UTC", "2015-05-17T10:05:03Z", MS),
        ("iso8601", "UTC", "2015-05-17 12:05:03.250+02:00", MS + 250),
        ("iso8601", "Europe/Berlin", "2015-05-17T12:05:03", MS),
        ("iso8601", "UTC", "0001-01-01T00:00:00+14:00", None),
        ("iso8601", "UTC", 5, None),
        ("epoch_ms", "UTC", MS, MS),
        ("epoch_ms", "UTC", "-5", None),
        ("epoch_s", "UTC", MS // 1000, MS),
        ("epoch_s", "UTC", "1431857103.2509", MS + 250),
        ("epoch_s", "UTC", 1431857103.25, MS + 250),
        ("epoch_s", "UTC", True, None),
        ("epoch_s", "UTC", "9" * 19, None),
        ("epoch_s", "UTC", "1e3", None),
        ("access_log", "UTC", "17/May/2015:12:05:03 +0200", MS),
        ("access_log", "UTC", "[17/May/2015:10:05:03 +0000]", MS),
        ("%d.%m.%Y %H:%M:%S", "Europe/Berlin", "17.05.2015 12:05:03", MS),
        ("%d.%m.%Y", "UTC", "17.05.1915", None),
        ("%d.%m.%Y", "UTC", None, None),
    ],
)
def test_times_of_every_format(name: str, zone: str, value: object, time_ms: int | None) -> None:
    assert TimeFormat(name, zone).ms_of(value) == time_ms


@pytest.mark.parametrize(("name", "zone", "what"), [("rfc", "UTC", "no time format"), ("iso8601", "Mars/Base", "no time zone")])
def test_what_is_no_format_is_refused(name: str, zone: str, what: str) -> None:
    with pytest.raises(TimeFormatRefused, match=what):
        TimeFormat(name, zone)


def test_a_raw_line_is_one_string_and_has_no_time() -> None:
    assert RawLineParser().parse(b"a\x00b\r") == ({"line": "a\x00b"}, None)
    assert RawLineParser().parse(b"") == ({"line": ""}, None)
    with pytest.raises(UnparsableLine, match=r"byte 1 of the line \(0xff\) is not UTF-8"):
        RawLineParser().parse(b"a\xff")
    assert RawLineParser(replace_invalid=True).parse(b"a\xff").event == {"line": "a\ufffd"}
