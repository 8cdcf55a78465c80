"""The comparison by intervals says what a comparison record by record says."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audit.model.comparison import Claims, Finding, Piece, compare_offsets, compare_sequences, sweep
from headrace.audit.model.packed_rows import SEQUENCES, Rows, common

crcs = st.sampled_from([-1, 5, 6])
rows = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6), crcs), max_size=6)
Counts = Counter[tuple[Finding, int]]


def by_record(pieces: list[Piece]) -> Counts:
    """Return (finding, number) → how often, one record at a time."""
    counts: Counts = Counter()
    for piece in pieces:
        at = piece.first_offset if piece.first_offset is not None else piece.first_sequence
        assert at is not None
        counts.update((piece.finding, at + n) for n in range(piece.count))
    return counts


def crcs_at(layer: list[tuple[int, int, int]], at: int) -> list[int]:
    return [crc for first, count, crc in layer if first <= at < first + count]


@settings(max_examples=400, deadline=None)
@given(before=rows, mine=rows, altered=rows, unread=rows, gone=rows)
def test_offsets_compared_by_intervals_are_those_compared_one_by_one(
    before: list[tuple[int, int, int]],
    mine: list[tuple[int, int, int]],
    altered: list[tuple[int, int, int]],
    unread: list[tuple[int, int, int]],
    gone: list[tuple[int, int, int]],
) -> None:
    expected: Counts = Counter()
    for at in range(30):
        held, found = crcs_at(before, at), crcs_at(mine, at)
        if held and not found:
            expected[Finding.EXPIRED if crcs_at(gone, at) else Finding.MISSING, at] += 1
        came_from = len(held) if held else 1 if crcs_at(unread, at) else 0
        expected[Finding.DOUBLED, at] += max(0, len(found) - came_from)
        is_strange = -1 not in held and any(crc not in (-1, *held) for crc in found)
        if held and found and (crcs_at(altered, at) or is_strange):
            expected[Finding.ALTERED, at] += 1
    found_pieces = compare_offsets(before, mine, altered=altered, unread_before=unread, gone=gone)
    assert by_record(found_pieces) == +expected


batches = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4), st.sampled_from([5, 6])), max_size=5)


@settings(max_examples=400, deadline=None)
@given(acknowledged=batches, uncertain=batches, stored=batches)
def test_sequences_compared_by_intervals_are_those_compared_one_by_one(
    acknowledged: list[tuple[int, int, int]],
    uncertain: list[tuple[int, int, int]],
    stored: list[tuple[int, int, int]],
) -> None:
    live, offset = [], 100
    for first, count, crc in stored:
        live.append((offset, count, crc, 7, 0, first))
        offset += 10
    counts: Counts = Counter()
    for at in range(30):
        told, there = Counter(crcs_at(acknowledged, at)), Counter(crcs_at(stored, at))
        given_up = crcs_at(uncertain, at)
        if not told and not given_up:
            counts[Finding.UNREPORTED, at] += there.total()
            continue
        wanted = [(crc, Finding.MISSING) for crc in told]
        for crc in given_up:
            if crc not in [known for known, _ in wanted]:
                wanted.append((crc, Finding.SEND_FAILED))
        claimed = {crc for crc, _ in wanted}
        if set(there) - claimed:
            counts[Finding.ALTERED, at] += 1
        absent = []
        surplus = Counter(there)
        for crc, loss in wanted:
            if surplus[crc]:
                surplus[crc] -= 1
            else:
                absent.append(loss)
        twice = sum(count for crc, count in surplus.items() if crc in claimed)
        strange = surplus.total() - twice
        counts.update((loss, at) for loss in absent[min(strange, len(absent)) :])
        counts[Finding.DOUBLED, at] += twice + max(0, strange - len(absent))
    pieces = compare_sequences({(7, 0): Claims(list(acknowledged), list(uncertain))}, live)
    by_sequence = [piece._replace(first_offset=None) for piece in pieces]
    assert by_record(by_sequence) == +counts


def test_each_doubled_record_is_named_by_where_its_second_copy_stands() -> None:
    live = [(40, 2, 5, 7, 0, 0), (10, 2, 5, 7, 0, 0)]
    pieces = compare_sequences({(7, 0): Claims([(0, 2, 5)])}, live)
    assert pieces == [Piece(Finding.DOUBLED, 40, 2, 7, 0, 0)]


def test_two_batches_under_one_number_are_told_apart_by_their_crc() -> None:
    """Two processes with one producer id: the broker takes one batch and calls the other a duplicate."""
    said = {(7, 0): Claims([(0, 3, 5), (0, 3, 6)])}
    assert compare_sequences(said, [(10, 3, 5, 7, 0, 0)]) == [Piece(Finding.MISSING, None, 3, 7, 0, 0, 6)]
    twice = compare_sequences(said, [(10, 3, 5, 7, 0, 0), (20, 3, 5, 7, 0, 0)])
    assert Counter(piece.finding for piece in twice) == {Finding.MISSING: 1, Finding.DOUBLED: 1}


def test_a_batch_that_nobody_reported_under_the_numbers_of_one_that_is_gone_is_that_one_altered() -> None:
    """Found by the search, seed 6056: headers cannot tell it from a loss and a batch of a second process that died unreported."""
    said = {(7, 0): Claims([(0, 3, 5)])}
    assert compare_sequences(said, [(10, 3, 6, 7, 0, 0)]) == [Piece(Finding.ALTERED, 10, 3, 7, 0, 0)]
    twin = {(7, 0): Claims([(0, 3, 5), (0, 3, 8)])}
    assert compare_sequences(twin, [(10, 3, 6, 7, 0, 0), (20, 3, 5, 7, 0, 0)]) == [Piece(Finding.ALTERED, 10, 3, 7, 0, 0)]


def test_batches_that_overlap_are_compared_record_by_record_though_their_lists_agree() -> None:
    """Found by the property above: two batches of one CRC under one number are one record, and it stands twice."""
    live = [(10, 1, 5, 7, 0, 0), (20, 2, 5, 7, 0, 0)]
    assert compare_sequences({(7, 0): Claims([(0, 1, 5), (0, 2, 5)])}, live) == [Piece(Finding.DOUBLED, 20, 1, 7, 0, 0)]


def test_sequence_numbers_begin_again_at_zero_behind_the_highest() -> None:
    said = {(7, 0): Claims([(SEQUENCES - 2, 5, 9)])}
    assert compare_sequences(said, [(100, 5, 9, 7, 0, SEQUENCES - 2)]) == []
    assert compare_sequences(said, [(100, 2, 9, 7, 0, SEQUENCES - 2), (200, 3, 9, 7, 0, 0)]) == []
    lost = compare_sequences(said, [(100, 2, 9, 7, 0, SEQUENCES - 2)])
    assert lost == [Piece(Finding.MISSING, None, 3, 7, 0, 0, 9)]


def test_a_chain_of_renumbered_batches_is_one_batch() -> None:
    said = {
        (7, 0): Claims(renumbered=[(0, 4, 1, 8, 0, 10)]),
        (8, 0): Claims(renumbered=[(10, 4, 2, 8, 1, 0)]),
        (8, 1): Claims(acknowledged=[(0, 4, 3)]),
    }
    for stored in ((7, 0, 0), (8, 0, 10), (8, 1, 0)):
        crc = {(7, 0): 1, (8, 0): 2, (8, 1): 3}[stored[:2]]
        assert compare_sequences(said, [(50, 4, crc, *stored)]) == []
    both = compare_sequences(said, [(50, 4, 1, 7, 0, 0), (60, 4, 3, 8, 1, 0)])
    assert both == [Piece(Finding.DOUBLED, 60, 4, 8, 1, 0)]
    assert compare_sequences(said, []) == [Piece(Finding.MISSING, None, 4, 8, 1, 0, 3)]


@pytest.mark.parametrize("crcs", [(3, 9), (9, 3)])
def test_a_batch_that_stands_under_earlier_numbers_is_no_other_process_s(crcs: tuple[int, int]) -> None:
    """Found by the search, seed 15344: it took the place of the batch that was lost, so that a loss and a double cancelled."""
    said = {
        (7, 0): Claims(renumbered=[(0, 4, 1, 7, 1, 0)], tellers={1: 0}),
        (7, 1): Claims(acknowledged=[(0, 4, crc) for crc in crcs], tellers={3: 0}),
    }
    pieces = compare_sequences(said, [(50, 4, 1, 7, 0, 0), (60, 4, 3, 7, 1, 0)])
    assert pieces == [Piece(Finding.DOUBLED, 60, 4, 7, 1, 0), Piece(Finding.MISSING, None, 4, 7, 1, 0, 9)]


def test_a_circle_of_renumbered_batches_ends() -> None:
    said = {(7, 0): Claims(renumbered=[(0, 2, 1, 7, 1, 0)]), (7, 1): Claims(renumbered=[(0, 2, 1, 7, 0, 0)])}
    pieces = compare_sequences(said, [(5, 2, 1, 7, 0, 0)])
    assert sum(piece.count for piece in pieces) <= 2


def test_a_batch_whose_last_numbers_nobody_spoke_of_is_missing_or_for_a_retired_run_given_up() -> None:
    told = Claims(renumbered=[(0, 2, 1, 7, 1, 0)])
    (piece,) = compare_sequences({(7, 0): told}, [])
    assert (piece.finding, piece.count) == (Finding.MISSING, 2)
    told.is_retired = True
    assert [piece.finding for piece in compare_sequences({(7, 0): told}, [])] == [Finding.SEND_FAILED]


@settings(max_examples=200, deadline=None)
@given(rows, st.integers(0, 25), st.integers(0, 10))
def test_what_is_cut_out_of_rows_and_what_stays_are_together_what_was_there(
    told: list[tuple[int, int, int]], start: int, length: int
) -> None:
    def numbers(some: list[tuple[int, ...]]) -> Counter[tuple[int, int]]:
        return Counter((at, row[2]) for row in some for at in range(row[0], row[0] + row[1]))

    whole = Rows(rows=told)
    assert [row[0] for row in whole] == sorted(row[0] for row in told)
    inside = {key: n for key, n in numbers(list(whole)).items() if start <= key[0] < start + length}
    before = numbers(list(whole))
    removed = whole.cut(start, start + length)
    assert numbers(removed) == inside
    assert numbers(list(whole)) == before - Counter(inside)
    again = Rows()
    again.unpack(whole.pack())
    assert again == whole
    assert again.end == max((row[0] + row[1] for row in whole), default=0)


@settings(max_examples=200, deadline=None)
@given(rows, rows)
def test_common_counts_each_number_that_both_name_once(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> None:
    mine = {at for first, count, _ in one for at in range(first, first + count)}
    theirs = {at for first, count, _ in other for at in range(first, first + count)}
    assert common(one, other) == len(mine & theirs)


def test_a_sweep_yields_each_stretch_with_the_rows_that_name_it() -> None:
    found = [(start, end, [len(layer) for layer in layers]) for start, end, layers in sweep([(0, 4), (2, 4)], [(5, 9)])]
    assert found == [(0, 2, [1, 0]), (2, 4, [2, 0]), (4, 5, [1, 0]), (5, 6, [1, 1]), (6, 14, [0, 1])]


def test_a_part_of_a_batch_is_named_by_its_own_offset() -> None:
    told = {(7, 0): Claims(acknowledged=[(0, 2, 5), (2, 2, 5)])}
    twice = compare_sequences(told, [(100, 4, 5, 7, 0, 0), (200, 4, 5, 7, 0, 0)])
    assert [(one.finding, one.first_offset, one.count) for one in twice] == [
        (Finding.DOUBLED, 200, 2),
        (Finding.DOUBLED, 202, 2),
    ]
    unreported, altered = compare_sequences(told, [(100, 2, 5, 7, 0, 0), (300, 8, 9, 7, 0, 2)])[::-1]
    assert (unreported.finding, unreported.first_offset, unreported.count) == (Finding.UNREPORTED, 302, 6)
    assert (altered.finding, altered.first_offset, altered.count) == (Finding.ALTERED, 300, 2)


@pytest.mark.parametrize("first", [0, 100])
def test_batches_that_overlap_by_less_than_the_second_is_long_do_not_agree(first: int) -> None:
    told = {(7, 0): Claims(acknowledged=[(first, 2, 5), (first + 1, 5, 5)])}
    (piece,) = compare_sequences(told, [(100, 2, 5, 7, 0, first), (200, 5, 5, 7, 0, first + 1)])
    assert (piece.finding, piece.first_offset, piece.count) == (Finding.DOUBLED, 200, 1)


def test_behind_the_highest_sequence_number_a_batch_has_the_same_crc() -> None:
    told = {(7, 0): Claims(acknowledged=[(SEQUENCES - 2, 5, 5)])}
    pieces = compare_sequences(told, [(100, 5, 9, 7, 0, SEQUENCES - 2)])
    assert [(one.finding, one.first_offset, one.count) for one in pieces] == [
        (Finding.ALTERED, 102, 3),
        (Finding.ALTERED, 100, 2),
    ]
