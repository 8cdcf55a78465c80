"""Ledger entries on the wire, cut to fit, and found again by offsets of the destination."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wire.mirror_ledger import MOST_BATCHES, CopiedBatch, LedgerEntry, NotALedgerEntry, OriginMap, SkippedRange


def entry(batches: int, *, first: int = 100) -> LedgerEntry:
    copied = tuple(CopiedBatch(first + 10 * one, 10, 10, 1_000 + 10 * one, 0xABCD) for one in range(batches))
    return LedgerEntry(
        topic="clicks",
        partition=3,
        destination_topic="clicks",
        from_offset=first - 5,
        to_offset=first + 10 * batches + 2,
        source_id="aa",
        destination_id="bb",
        batches=copied,
        skipped=(SkippedRange(first - 5, first, "expired"),),
        destination_end=copied[-1].destination_next,
        source_crc=(copied[-1].source_base, 77),
    )


def test_an_entry_is_read_as_it_was_written() -> None:
    thinned = CopiedBatch(130, 10, 2, 1_030, 1, (0, 7))
    whole = entry(3)
    one = replace(whole, batches=(*whole.batches, thinned))
    assert LedgerEntry.from_json(one.to_json()) == one
    assert thinned.source_offset(1_031) == 137
    assert one.batches[0].source_offset(1_004) == 104


@pytest.mark.parametrize("value", [b"", b"[]", b'{"v":2}', b'{"v":1}', b"\xff", b'{"v":1,"topic":1}'])
def test_strange_bytes_are_no_entry(value: bytes) -> None:
    with pytest.raises(NotALedgerEntry):
        LedgerEntry.from_json(value)


@given(st.integers(1, 3 * MOST_BATCHES))
def test_a_long_entry_is_cut_into_entries_that_say_the_same(batches: int) -> None:
    whole = entry(batches)
    parts = list(whole.parts())
    assert [batch for part in parts for batch in part.batches] == list(whole.batches)
    assert all(len(part.batches) <= MOST_BATCHES for part in parts)
    assert [part.from_offset for part in parts] == [whole.from_offset, *[part.to_offset for part in parts[:-1]]]
    assert (parts[-1].to_offset, parts[-1].destination_end) == (whole.to_offset, whole.destination_end)
    assert [one for part in parts for one in part.skipped] == list(whole.skipped)


def test_origins_are_found_by_the_destinations_offsets() -> None:
    origins = OriginMap([CopiedBatch(0, 10, 10, 5, 1), CopiedBatch(10, 5, 5, 16, 2)])
    assert origins.at(4) is None
    assert [found.source_offset(at) for at in (5, 14, 16, 20) if (found := origins.at(at))] == [0, 9, 10, 14]
    assert origins.at(15) is None  # the transaction's marker
    assert origins.at(21) is None


def test_a_copy_made_anew_takes_the_place_of_the_one_before() -> None:
    origins = OriginMap([CopiedBatch(0, 10, 10, 0, 1), CopiedBatch(10, 5, 5, 10, 2)])
    origins.add(CopiedBatch(50, 3, 3, 0, 9))
    assert len(origins) == 1
    found = origins.at(2)
    assert found is not None
    assert found.source_offset(2) == 52
