"""The quarantine record's bytes, its key, and how each thing is shown once."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.quarantine import PAYLOAD_HEAD_BYTES, origin_words, payload_head
from headrace.client.quarantined_records import SeenKeys
from headrace.wire.quarantine_record import (
    PAYLOAD_LIMIT_BYTES,
    FileOrigin,
    LogOrigin,
    NotAQuarantineRecord,
    Origin,
    ProcessOrigin,
    QuarantineRecord,
    head_of,
    quarantine_topic,
)

ORIGINS: list[Origin] = [
    FileOrigin(file="/var/log/access.log", line=8899),
    LogOrigin(cluster="offline", topic="clicks", partition=2, offset=77),
    LogOrigin(cluster="live", topic="clicks", partition=0, offset=77, to_offset=900),
    ProcessOrigin(instance="host/app/1", sequence=3),
]


def quarantined(origin: Origin = ORIGINS[0], payload: bytes = b"\x00\xff") -> QuarantineRecord:
    return QuarantineRecord(
        topic="access_log",
        stage="replay",
        code="unparsable_line",
        reason="a quote is not closed",
        origin=origin,
        window_start_ms=1_432_123_200_000,
        window_from="record",
        at_ms=1_700_000_000_000,
        payload=payload,
    )


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_record_comes_back_as_it_was_written(origin: Origin) -> None:
    told = quarantined(origin)
    assert QuarantineRecord.from_json(told.to_json()) == told
    assert QuarantineRecord.from_json(memoryview(told.to_json())) == told


def test_the_bytes_are_those_of_the_contract() -> None:
    assert json.loads(quarantined().to_json()) == {
        "v": 1,
        "topic": "access_log",
        "stage": "replay",
        "code": "unparsable_line",
        "reason": "a quote is not closed",
        "origin": {"file": "/var/log/access.log", "line": 8899},
        "window_start_ms": 1432123200000,
        "window_from": "record",
        "at_ms": 1700000000000,
        "payload_base64": "AP8=",
    }
    assert quarantined().key() == b'{"file":"/var/log/access.log","line":8899}'
    assert quarantined(ORIGINS[1]).key() == b'{"cluster":"offline","offset":77,"partition":2,"topic":"clicks"}'
    assert quarantine_topic("clicks") == "clicks.quarantine"


def test_the_key_is_the_origin_s_alone() -> None:
    assert quarantined(payload=b"a").key() == quarantined(payload=b"b").key()
    assert len({quarantined(origin).key() for origin in ORIGINS}) == len(ORIGINS)


@pytest.mark.parametrize(
    "value",
    [b"", b"no json", b"[]", b"7", b'{"v":1}', b'{"v":2}', quarantined().to_json().replace(b'"AP8="', b'"?"'),
     quarantined().to_json().replace(b"8899", b'"x"'), b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_quarantine_record_is_refused(value: bytes) -> None:
    with pytest.raises(NotAQuarantineRecord):
        QuarantineRecord.from_json(value)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100))
def test_no_bytes_make_the_reader_fail_otherwise(value: bytes) -> None:
    with pytest.raises(NotAQuarantineRecord):
        QuarantineRecord.from_json(value)


def test_a_payload_that_is_too_large_is_kept_as_its_head() -> None:
    assert len(head_of(b"x" * (PAYLOAD_LIMIT_BYTES + 1))) == PAYLOAD_LIMIT_BYTES


def test_each_key_is_new_once_and_the_memory_is_bounded() -> None:
    seen = SeenKeys(limit=3)
    assert [seen.is_new(key) for key in (b"a", b"b", b"a")] == [True, True, False]
    assert all(seen.is_new(str(number).encode()) for number in range(10))
    assert len(seen._digests) == 3


def test_origin_and_payload_are_shown_as_people_write_them(tmp_path: Path) -> None:
    assert [origin_words(quarantined(origin)) for origin in ORIGINS] == [
        "/var/log/access.log:8899",
        "offline clicks-2 offset 77",
        "live clicks-0 offsets 77 to 900",
        "host/app/1 event 3",
    ]
    assert payload_head(b"a\nb\xff\x1b[31m") == r"a\nb\xff\x1b[31m"
    assert payload_head(b"x" * 500) == "x" * PAYLOAD_HEAD_BYTES + " … (500 bytes)"
