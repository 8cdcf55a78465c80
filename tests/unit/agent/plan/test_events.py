"""Events go into batches in C as they do in Python: the same places, the same bytes. What comes out is read by the reader of
batches, which shares nothing with their makers.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.plan.events import RECORD_OVERHEAD_BYTES, BatchHead, Events, ListedEvents, NativeEvents, events_of
from headrace.agent.plan.picks import pack_picks, split_picks, unpack_picks
from headrace.agent.source import SourceRecord
from headrace.audit.model.windows import WINDOW_MS
from headrace.runtime.native import load
from headrace.sdk.journal.files.layout import Kind, record_bytes
from headrace.sdk.journal.files.plain_records import plain_records
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import iter_batches, iter_records

native: Any = load()
HEAD = BatchHead(Codec.NONE, 7, 2, 40)
TIMES = st.integers(-5, 3 * WINDOW_MS) | st.sampled_from([0, WINDOW_MS - 1, WINDOW_MS, 1 << 41])
RECORDS = st.lists(st.builds(SourceRecord, TIMES, st.none() | st.binary(max_size=9), st.binary(max_size=90)), max_size=60)
MAKERS = [ListedEvents, pytest.param(NativeEvents, marks=pytest.mark.needs("native"))]


def filled(make: type[ListedEvents] | type[NativeEvents], records: list[SourceRecord]) -> Events:
    events = make()
    for record in records:
        events.append(*record)
    return events


@pytest.mark.parametrize("make", MAKERS)
@given(records=RECORDS, partitions=st.integers(1, 5), batch_bytes=st.integers(1, 900), prefix=st.binary(max_size=5))
def test_each_event_goes_into_one_batch_of_its_window_in_order(
    make: Any, records: list[SourceRecord], partitions: int, batch_bytes: int, prefix: bytes
) -> None:
    events = filled(make, records)
    assert (len(events), list(events)) == (len(records), records)
    batches = events.gathered(partition_count=partitions, batch_bytes=batch_bytes, prefix_bytes=len(prefix))
    placed: list[int] = []
    of_key: dict[bytes | None, int] = {}
    for window, partition, picks, count in batches:
        places = unpack_picks(picks)
        placed += places
        assert count == len(places) > 0
        assert all(one < other for one, other in pairwise(places))
        sizes = [RECORD_OVERHEAD_BYTES + len(prefix) + len(records[at].key or b"") + len(records[at].body) for at in places]
        assert count == 1 or sum(sizes) <= batch_bytes
        for at in places:
            assert window == (-WINDOW_MS if records[at].timestamp_ms < 0 else records[at].timestamp_ms // WINDOW_MS * WINDOW_MS)
            assert (partition == -1) == (records[at].key is None)
            assert of_key.setdefault(records[at].key, partition) == partition
        content, taken = events.batch(picks, prefix, HEAD)
        ((header, _),) = iter_batches(content)
        assert taken == count
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
        found = [(one.timestamp_ms, one.key, one.value) for one in iter_records(content)]
        assert found == [(records[at].timestamp_ms, records[at].key, prefix + records[at].body) for at in places]
    assert sorted(placed) == list(range(len(records)))
    order = [(one.window_start_ms, one.partition) for one in batches]
    assert order == sorted(order)


@pytest.mark.needs("native")
@given(RECORDS, st.integers(1, 5), st.integers(1, 900), st.binary(max_size=5), st.sampled_from(list(Codec)))
def test_both_make_the_same_batches(
    records: list[SourceRecord], partitions: int, batch_bytes: int, prefix: bytes, codec: Codec
) -> None:
    one, other = filled(ListedEvents, records), filled(NativeEvents, records)
    words = {"partition_count": partitions, "batch_bytes": batch_bytes, "prefix_bytes": len(prefix)}
    batches = one.gathered(**words)
    assert batches == other.gathered(**words)
    head = HEAD._replace(codec=codec)
    for batch in batches:
        assert one.batch(batch.picks, prefix, head) == other.batch(batch.picks, prefix, head)


@pytest.mark.parametrize("make", MAKERS)
@given(records=RECORDS, places=st.lists(st.integers(0, 90), unique=True).map(sorted))
def test_of_places_beyond_the_end_only_the_others_count(make: Any, records: list[SourceRecord], places: list[int]) -> None:
    content, count = filled(make, records).batch(pack_picks(places), b"", HEAD)
    there = [at for at in places if at < len(records)]
    assert count == len(there)
    assert [one.value for one in iter_records(content)] == [records[at].body for at in there] if there else content == b""


@given(st.lists(st.integers(0, 400), unique=True).map(sorted), st.integers(0, 400))
def test_places_are_packed_and_split(places: list[int], count: int) -> None:
    assert unpack_picks(pack_picks(places)) == tuple(places)
    first, others = split_picks(pack_picks(places), count)
    assert (unpack_picks(first), unpack_picks(others)) == (tuple(places[:count]), tuple(places[count:]))


@pytest.mark.needs("native")
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**64 - 2),
            st.integers(-(1 << 62), 1 << 62),
            st.sampled_from([*Kind, 0, 9]),
            st.none() | st.binary(max_size=20),
            st.binary(max_size=60),
        ),
        max_size=12,
    ),
    st.integers(0, 3_000),
    st.integers(0, 255),
    st.integers(1, 900),
    st.integers(0, 1_200),
)
def test_a_journal_is_read_in_c_as_in_python(
    records: list[tuple[int, int, int, bytes | None, bytes]], damaged_at: int, value: int, most_bytes: int, until: int
) -> None:
    memory = bytearray(b"".join(record_bytes(*record, 77) for record in records))
    if damaged_at < len(memory):
        memory[damaged_at] = value
    for size in (len(memory), len(memory) * 2 // 3):
        for limits in ((1 << 30, 1 << 30), (most_bytes, until)):
            found, run = plain_records(bytes(memory[:size]), 0, 77, *limits)
            events = NativeEvents()
            count, end, largest, last_ms, refused = events.native.take_journal(bytes(memory[:size]), 0, 77, *limits)
            assert (count, end, largest + 1 if count else 0, last_ms) == run
            assert list(events) == [(one.timestamp_ms, one.key, one.body) for one in found if one.kind is Kind.EVENT]
            assert refused == [(one.timestamp_ms, one.key, one.body) for one in found if one.kind is not Kind.EVENT]


def test_events_are_taken_as_they_are() -> None:
    events = ListedEvents()
    assert events_of(events) is events
    assert list(events_of([SourceRecord(1, None, b"a")])) == [(1, None, b"a")]
