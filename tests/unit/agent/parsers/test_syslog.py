"""Syslog messages: the RFCs' own examples, and what senders make of them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.parsers.syslog import NotSyslog, parse_syslog

NOW_MS = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * 1000


def parsed(message: bytes, received_ms: int = NOW_MS) -> dict[str, object]:
    return parse_syslog(message, received_ms=received_ms, zone=UTC).event


def test_rfc_5424_section_6_5_example_1() -> None:
    found = parsed(
        b"<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \xef\xbb\xbf'su root' failed for lonvick on /dev/pts/8"
    )
    assert found == {
        "facility": 4,
        "severity": 2,
        "message_time": 1_065_910_455_003,
        "hostname": "mymachine.example.com",
        "app_name": "su",
        "procid": None,
        "msgid": "ID47",
        "structured_data": None,
        "message": "'su root' failed for lonvick on /dev/pts/8",
    }


def test_rfc_5424_example_3_with_structured_data_and_example_4_without_a_message() -> None:
    head = b"<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 evntslog - ID47 "
    data = rb'[exampleSDID@32473 iut="3" eventSource="a \"b\" \] \\"][examplePriority@32473 class="high"]'
    for end, message in ((b"", ""), (b" said", "said")):
        found = parsed(head + data + end)
        assert found["structured_data"] == {
            "exampleSDID@32473": {"iut": "3", "eventSource": 'a "b" ] \\'},
            "examplePriority@32473": {"class": "high"},
        }
        assert (found["message"], found["message_time"]) == (message, 1_061_727_255_000)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"<34>Oct 11 22:14:15 mymachine su: 'su root' failed", ("mymachine", "su", None, "'su root' failed")),
        (b"<13>Nov 23 20:00:00 prog[77]: hello\0", (None, "prog", "77", "hello")),
        (
            b"<0>Oct 22 10:52:01 scapegoat.dmz.example.org sched[0]: That's All Folks!\n",
            ("scapegoat.dmz.example.org", "sched", "0", "That's All Folks!"),
        ),
        (b"<13>2026-01-02T03:04:05+01:00 box app: iso", ("box", "app", None, "iso")),
        (b"<13>Use the BFG!", (None, None, None, "Use the BFG!")),
        (b"<13>", (None, None, None, "")),
        (b"<13>Feb 31 10:00:00 box app: no such day", (None, None, None, "Feb 31 10:00:00 box app: no such day")),
        (b"<13>Jan  2 03:04:05 box \xff\xfe broken", ("box", None, None, "\\xff\\xfe broken")),
    ],
)
def test_rfc_3164_and_the_habits_of_its_senders(message: bytes, expected: tuple[object, ...]) -> None:
    found = parsed(message)
    assert (found["hostname"], found["app_name"], found["procid"], found["message"]) == expected


def test_a_time_without_a_year_is_that_nearest_to_its_arrival() -> None:
    new_year = int(datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC).timestamp()) * 1000
    found = parsed(b"<13>Dec 31 23:59:59 box app: x", new_year)
    assert found["message_time"] == int(datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) * 1000
    berlin = parse_syslog(b"<13>Jan  2 04:04:05 box app: x", received_ms=NOW_MS, zone=ZoneInfo("Europe/Berlin"))
    assert berlin.time_ms == NOW_MS


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"hello", "priority"),
        (b"<192>1 - - - - - -", "priority"),
        (b"<34>2 - - - - - -", "version 2"),
        (b"<34>1 - - -", "header"),
        (b'<34>1 - - - - - [a b="c"', "breaks off"),
        (b"<34>1 - - - - - x", "structured data"),
        (b"<34>1 - - - - - -x", "not a space"),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(message: bytes, why: str) -> None:
    with pytest.raises(NotSyslog, match=why):
        parsed(message)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused(message: bytes) -> None:
    for one in (message, b"<13>" + message, b"<13>1 " + message):
        try:
            found = parsed(one)
        except NotSyslog:
            continue
        assert isinstance(found["message"], str)
