"""A run of batches gives the same result as appending the batches one by one: in the file, the index and the producers' state."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.log import AppendFailed, PartitionLog, ProducerStates
from headrace.broker.log.segment.batch_run import BatchRun
from headrace.broker.log.segment.batch_starts import BatchStarts
from headrace.wire.batch.record_batch import BatchHeader, place, read_header
from tests.support.small_logs import NOW_MS, batch, open_log


def run_at(offset: int, batches: Sequence[bytearray]) -> BatchRun:
    """Return these batches as a run that begins at `offset`."""
    offsets = []
    for one in batches:
        offsets.append(offset)
        offset += place(one, offset)
    stamps = [read_header(one).max_timestamp_ms for one in batches]
    return BatchRun([bytes(one) for one in batches], offsets, stamps, offset, -1, [])


def room(log: PartitionLog) -> tuple[int, int]:
    found = log.run_room(NOW_MS)
    assert found is not None
    return found


def test_a_run_is_what_its_batches_one_by_one_are(tmp_path: Path) -> None:
    one_by_one, at_once = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    for log in (one_by_one, at_once):
        log.append(batch(b"first"), NOW_MS)
    for size in range(5):
        one_by_one.append(batch(b"x" * size), NOW_MS)
    offset, _ = room(at_once)
    at_once.append_run(run_at(offset, [batch(b"x" * size) for size in range(5)]), NOW_MS)
    assert at_once.log_end_offset == one_by_one.log_end_offset
    assert at_once.segments == one_by_one.segments
    files = [next(folder.glob("*.log")).read_bytes() for folder in (tmp_path / "a", tmp_path / "b")]
    assert files[0] == files[1]
    one_by_one.close()
    at_once.close()


def test_no_run_begins_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=300, segment_ms=10_000)
    assert log.run_room(NOW_MS) is None
    log.append(batch(b"first"), NOW_MS)
    assert room(log) == (log.log_end_offset, 300)
    assert log.run_room(NOW_MS + 10_000) is None
    log.close()
    assert log.run_room(NOW_MS) is None


def test_a_run_that_is_written_in_part_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"first"), NOW_MS)
    end, pwritev = log.log_end_offset, os.pwritev

    def half(fd: int, pieces: Sequence[bytes], position: int) -> int:
        return pwritev(fd, [b"".join(pieces)[:100]], position)

    def none(fd: int, data: bytes, position: int) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "pwritev", half)
    monkeypatch.setattr(os, "pwrite", none)
    with pytest.raises(AppendFailed):
        log.append_run(run_at(end, [batch(b"x"), batch(b"y")]), NOW_MS)
    assert (log.log_end_offset, next(tmp_path.glob("*.log")).stat().st_size) == (end, end)
    monkeypatch.undo()
    log.append_run(run_at(end, [batch(b"x"), batch(b"y")]), NOW_MS)
    log.close()


def test_a_run_that_the_system_takes_in_two_goes_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"first"), NOW_MS)
    pwritev = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, pieces, position: pwritev(fd, [b"".join(pieces)[:70]], position))
    run = run_at(log.log_end_offset, [batch(b"x"), batch(b"y" * 50)])
    log.append_run(run, NOW_MS)
    assert next(tmp_path.glob("*.log")).read_bytes().endswith(b"".join(run.pieces))
    log.close()


def test_a_run_placed_for_another_offset_is_a_fault_of_ours_that_reaches_no_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"first"), NOW_MS)
    with pytest.raises(AssertionError):
        log.append_run(run_at(log.log_end_offset + 1, [batch(b"x")]), NOW_MS)
    log.close()


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 50)), min_size=1, max_size=12), max_size=8),
    st.integers(1, 100),
)
def test_the_index_is_the_same_for_any_runs(runs: list[list[tuple[int, int]]], interval_bytes: int) -> None:
    one_by_one, at_once = BatchStarts(interval_bytes), BatchStarts(interval_bytes)
    offset = 0
    for run in runs:
        offsets, stamps = [], []
        for size, stamp in run:
            one_by_one.add(offset, stamp)
            offsets.append(offset)
            stamps.append(stamp)
            offset += size
        at_once.add_run(offsets, stamps)
    assert [getattr(one_by_one, name) for name in BatchStarts.__slots__] == [
        getattr(at_once, name) for name in BatchStarts.__slots__
    ]


@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from([0, 2**31 - 9]))
def test_producers_are_remembered_the_same_for_any_runs(before: int, count: int, begin: int) -> None:
    one_by_one, at_once = ProducerStates(10), ProducerStates(10)
    headers = [
        BatchHeader(0, 100, 0, 0, 0, 99, 0, 0, 7, 3, (begin + 2 * number) % 2**31, 2) for number in range(before + count + 1)
    ]
    for number, header in enumerate(headers[: before + count]):
        one_by_one.record(header, 100 * number)
        if number < before:
            at_once.record(header, 100 * number)
    assert at_once.due(7, 3) == headers[before].base_sequence
    assert at_once.due(7, 2) is at_once.due(8, 3) is None
    at_once.record_run(7, [(headers[number].base_sequence, 2, 100 * number) for number in range(before, before + count)])
    assert at_once._producers == one_by_one._producers
    assert at_once.due(7, 3) == headers[before + count].base_sequence
