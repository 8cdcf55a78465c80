"""`headrace_native` survives whatever it is given, and keeps nothing."""

import gc
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.native import load
from headrace.sdk import ACCESS_LOG_SCHEMA
from headrace.sdk.encoding.event_encoder import native_writer
from headrace.sdk.encoding.program import Kind, compile_schema

from .random_events import ODD_VALUES

native: Any = load()
pytestmark = pytest.mark.needs("native")

_WORDS = st.recursive(
    st.integers(-2, 16)
    | st.none()
    | st.binary(max_size=2)
    | st.text(max_size=2)
    | st.sampled_from([int, str, {"A": b"\0"}, {int: (0,)}, {int: (9,)}, len]),
    lambda inner: st.lists(inner, max_size=5).map(tuple),
    max_leaves=20,
)
_EVENT = {"client_ip": "::1", "status": 200, "path": "/", "size_bytes": 2**40}

_LINE = b'1.2.3.4 - ada [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "curl/8"'


@settings(max_examples=300)
@given(words=_WORDS, event=st.dictionaries(st.text("ab", max_size=1), ODD_VALUES, max_size=3))
def test_a_program_of_nonsense_is_refused_or_obeyed(words: Any, event: dict[str, Any]) -> None:
    fields = words if isinstance(words, tuple) else (words,)
    for records in (words, ((("a", fields, None),),), (tuple(("a", field, b"") for field in fields),)):
        try:
            native.EventWriter(records, b"", "server", "event_time").encode(event, 5)
        except (TypeError, ValueError, OverflowError):
            pass


@given(st.lists(ODD_VALUES, max_size=6))
def test_other_arguments_are_refused_or_obeyed(values: list[Any]) -> None:
    events = native.Events()
    events.append(5, b"key", b"body")
    of_events = (events.append, events.take_journal, events.take_access_log, events.batches, events.framed)
    for call in (native.EventWriter, native.frame_record, native.journal_record, native.Events, *of_events):
        try:
            call(*values)
        except (TypeError, ValueError, OverflowError):
            pass


@given(
    data=st.binary(max_size=200),
    numbers=st.lists(st.integers(-3, 300) | st.sampled_from([2**31, 2**32 - 1, 2**63 - 1, -(2**63)]), min_size=4, max_size=4),
    picks=st.binary(max_size=40),
)
def test_events_of_nonsense_are_refused_or_taken(data: bytes, numbers: list[int], picks: bytes) -> None:
    events = native.Events()
    for at_ms in numbers:
        events.append(at_ms, data[:3], data)
    for call, words in (
        (events.take_journal, (data, *numbers)),
        (events.take_access_log, (data.splitlines(), numbers[0], data)),
        (events.batches, tuple(numbers)),
        (events.framed, (data, picks)),
    ):
        try:
            call(*words)
        except (TypeError, OverflowError):
            pass
    assert [len(events[at]) for at in range(len(events))] == [3] * len(events)
    with pytest.raises(IndexError):
        events[len(events)]


def test_a_writer_that_was_not_made_encodes_nothing() -> None:
    with pytest.raises(TypeError):
        native.EventWriter.__new__(native.EventWriter).encode({}, 1)


def test_nothing_is_kept() -> None:
    schema = fastavro.parse_schema(ACCESS_LOG_SCHEMA)

    def work() -> None:
        writer = native_writer(compile_schema(schema), b"web-1")
        writer(_EVENT, 1)
        for bad in ({}, {**_EVENT, "status": 2**40}, {**_EVENT, "path": "\ud800"}, {**_EVENT, "x": 1}, None):
            with pytest.raises(ValueError):
                writer(bad, 1)
        with pytest.raises(TypeError):
            native.EventWriter((("a",),), None, "s", "t")
        native.journal_record(1, 2, 3, b"key", b"body", 4)
        native.frame_record(1, 2, None, b"prefix", b"body")
        events = native.Events()
        events.append(10**12, b"key", bytes(500))
        events.take_journal(
            native.journal_record(1, 2, 1, b"key", b"body", 4) + native.journal_record(2, 2, 2, None, b"b", 4), 0, 4, 99, 99
        )
        events.take_access_log([_LINE] * 3, 0, b"\x02s")
        assert len(events) == 5
        for _, _, picks, _ in events.batches(600_000, 4, 100, 24):
            events.framed(b"prefix", picks)
        list(events)
        with pytest.raises(TypeError):
            events.take_access_log([_LINE, None], 0, b"\x02s")

    for _ in range(20):
        work()
    gc.collect()
    counts = [sys.getrefcount(one) for one in (None, schema, *_EVENT, *_EVENT.values())]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(300):
        work()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 20_000, "300 rounds keep less than one program"
    for one, count in zip((None, schema, *_EVENT, *_EVENT.values()), counts, strict=True):
        assert abs(sys.getrefcount(one) - count) < 50
    # A hundredfold event goes through the heap.
    long_path = {**_EVENT, "path": "x" * 100_000}
    assert len(native_writer(compile_schema(schema), b"s")(long_path, 1)) > 100_000


def test_it_runs_in_development_mode() -> None:
    code = (
        "import headrace_native as n\n"
        "w = n.EventWriter(((('a', (2,), None), ('event_time', (3,), None)),), None, 'server', 'event_time')\n"
        "assert w.encode({'a': 1}, 2) == bytes([2, 4])\n"
        "del w\n"
    )
    where = str(Path(native.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", f"import sys; sys.path.insert(0, {where!r})\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_numbers_of_kinds_are_those_of_the_module() -> None:
    assert [kind.name for kind in Kind] == [
        *("NULL", "BOOLEAN", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "BYTES"),
        *("FIXED", "ENUM", "ARRAY", "MAP", "UNION", "RECORD", "LOGICAL"),
    ]
