"""A mirrored batch is appended at its own offset or not at all, from any sender and at any time."""

import errno
import os
from pathlib import Path

import pytest

from headrace.broker.log import AlreadyThere, Appended, AppendFailed, PartitionLog, Refused, RefusedBecause
from headrace.broker.log.tools.check import check
from headrace.wire.batch.record_batch import place
from tests.support.small_logs import DAY_MS, NOW_MS, batch, fetched, more_records_than_bytes, open_log, set_crc, values

pytestmark = pytest.mark.usefixtures("no_fsync")


@pytest.fixture
def source(tmp_path: Path) -> PartitionLog:
    """A log with ten batches, one of them with a hole, in several segments."""
    log = open_log(tmp_path / "source", segment_bytes=300)
    for number in range(10):
        log.append(more_records_than_bytes() if number == 4 else batch(b"%d" % number, b"again"), NOW_MS, leader_epoch=3)
    return log


@pytest.fixture
def copy(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "copy", segment_bytes=500)


def refused_because(answer: object) -> RefusedBecause | None:
    return answer.because if isinstance(answer, Refused) else None


def test_a_copy_has_the_same_bytes_at_the_same_offsets(source: PartitionLog, copy: PartitionLog) -> None:
    for header, data in fetched(source):
        assert copy.append_at(data, 0, NOW_MS, leader_epoch=3) == (header.base_offset, header.next_offset, None)
    assert [data for _, data in fetched(copy)] == [data for _, data in fetched(source)]
    assert (copy.log_start_offset, copy.log_end_offset) == (0, source.log_end_offset)
    assert check(copy.folder) == []


def test_only_the_leader_epoch_may_differ(source: PartitionLog, copy: PartitionLog) -> None:
    for _, data in fetched(source):
        copy.append_at(memoryview(data), 0, NOW_MS, leader_epoch=9)
    assert {header.leader_epoch for header, _ in fetched(copy)} == {9}
    assert [data[:12] + data[16:] for _, data in fetched(copy)] == [data[:12] + data[16:] for _, data in fetched(source)]


def test_a_delayed_duplicate_is_already_there_at_any_time(source: PartitionLog, copy: PartitionLog) -> None:
    sent = fetched(source)
    for _, data in sent:
        copy.append_at(data, 0, NOW_MS)
    for log in (copy, open_log(copy.folder)):
        for header, data in sent:
            answer = log.append_at(data, 0, NOW_MS)
            assert answer == AlreadyThere(header.base_offset, header.next_offset)
    assert copy.log_end_offset == source.log_end_offset


def test_another_batch_at_an_offset_that_is_taken_is_refused(source: PartitionLog, copy: PartitionLog, tmp_path: Path) -> None:
    for _, data in fetched(source):
        copy.append_at(data, 0, NOW_MS)
    other = open_log(tmp_path / "other")
    other.append(batch(b"X", b"again"), NOW_MS)
    _, data = fetched(other)[0]
    answer = copy.append_at(data, 0, NOW_MS)
    assert refused_because(answer) is RefusedBecause.DIFFERENT_BATCH
    assert "continue from there" in str(answer)
    # The same for a place in the middle of a batch, where none begins.
    inside = bytearray(data)
    place(inside, 5)
    assert refused_because(copy.append_at(inside, 0, NOW_MS)) is RefusedBecause.DIFFERENT_BATCH
    assert values(fetched(copy)) == values(fetched(source))


def test_a_batch_after_one_that_is_missing_is_refused_while_the_source_has_it(source: PartitionLog, copy: PartitionLog) -> None:
    first, second, third = fetched(source)[:3]
    assert refused_because(copy.append_at(second[1], 0, NOW_MS)) is RefusedBecause.AHEAD_OF_LOG_END
    copy.append_at(first[1], 0, NOW_MS)
    answer = copy.append_at(third[1], 0, NOW_MS)
    assert isinstance(answer, Refused)
    assert (answer.because, answer.position, answer.log_end_offset) == (
        RefusedBecause.AHEAD_OF_LOG_END,
        third[0].position,
        second[0].position,
    )
    assert copy.log_end_offset == second[0].position


def test_a_batch_that_no_byte_addressed_log_placed_is_refused(copy: PartitionLog) -> None:
    dense = batch(b"a", b"b")
    assert refused_because(copy.append_at(dense, 0, NOW_MS)) is RefusedBecause.NOT_PLACED
    assert copy.log_end_offset == 0


def test_a_batch_of_a_compacted_topic_is_refused(copy: PartitionLog) -> None:
    compacted = batch(b"a", b"b")
    place(compacted, 0)
    compacted[26] = 2  # its last record was at delta 2
    assert refused_because(copy.append_at(set_crc(compacted), 0, NOW_MS)) is RefusedBecause.NOT_PLACED


def test_a_log_that_never_held_anything_starts_where_its_source_starts(source: PartitionLog, copy: PartitionLog) -> None:
    header, data = fetched(source)[6]
    answer = copy.append_at(data, header.position, NOW_MS)
    assert answer == Appended(header.base_offset, header.next_offset)
    assert (copy.log_start_offset, copy.log_end_offset) == (header.position, header.next_offset)
    assert copy.gaps == []
    again = open_log(copy.folder)
    assert (again.log_start_offset, again.log_end_offset) == (header.position, header.next_offset)
    assert [path.name for path in sorted(copy.folder.glob("*.log"))] == [f"{header.position:020d}.log"]


def test_where_a_log_starts_is_on_disk_after_a_flush(
    source: PartitionLog, copy: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    header, data = fetched(source)[6]
    copy.append_at(data, header.position, NOW_MS)
    copy.flush()
    assert synced == [str(copy.folder)]


def test_a_batch_before_the_sources_start_is_refused(source: PartitionLog, copy: PartitionLog) -> None:
    _, data = fetched(source)[0]
    assert refused_because(copy.append_at(data, 500, NOW_MS)) is RefusedBecause.BEHIND_SOURCE_START
    assert (copy.log_start_offset, copy.log_end_offset) == (0, 0)


def test_a_copy_that_fell_behind_the_sources_retention_jumps_and_says_so(source: PartitionLog, copy: PartitionLog) -> None:
    sent = fetched(source)
    for _, data in sent[:3]:
        copy.append_at(data, 0, NOW_MS)
    end = copy.log_end_offset
    start = sent[6][0].position
    for header, data in sent[6:]:
        answer = copy.append_at(data, start, NOW_MS)
        assert isinstance(answer, Appended)
        assert answer.jumped_from == (end if header.position == start else None)
    for log in (copy, open_log(copy.folder)):
        assert log.gaps == [(end, start)]
        assert log.log_start_offset == 0
        assert [header.position for header, _ in fetched(log)] == [h.position for h, _ in sent[:3] + sent[6:]]
        # A fetch into the gap is answered with what comes after it.
        assert fetched(log, from_offset=end + 1)[0][0].position == start
    in_gap = sent[4]
    answer = copy.append_at(in_gap[1], start, NOW_MS)
    assert refused_because(answer) is RefusedBecause.DIFFERENT_BATCH


def test_a_copy_whose_every_segment_expired_jumps_by_moving_its_empty_segment(source: PartitionLog, copy: PartitionLog) -> None:
    sent = fetched(source)
    header, data = sent[0]
    copy.append_at(data, 0, NOW_MS)
    copy.expire(NOW_MS + 30 * DAY_MS)
    end = copy.log_end_offset
    assert (copy.log_start_offset, end) == (header.next_offset, header.next_offset)
    header, data = sent[6]
    answer = copy.append_at(data, header.position, NOW_MS)
    assert answer == Appended(header.base_offset, header.next_offset, end)
    assert (copy.log_start_offset, copy.gaps) == (header.position, [])
    assert refused_because(copy.append_at(sent[0][1], 0, NOW_MS)) is RefusedBecause.EXPIRED_HERE


def test_a_batch_whose_place_is_damaged_here_is_refused_as_such(source: PartitionLog, copy: PartitionLog) -> None:
    sent = fetched(source)
    for _, data in sent:
        copy.append_at(data, 0, NOW_MS)
    copy.close()
    path = copy.folder / f"{0:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[sent[1][0].position + 70] ^= 1
    path.write_bytes(damaged)
    again = open_log(copy.folder)
    answer = again.append_at(sent[1][1], 0, NOW_MS)
    assert refused_because(answer) is RefusedBecause.DAMAGED_HERE


@pytest.mark.parametrize("had_batches", [0, 3])
def test_a_full_disk_at_a_start_or_a_jump_leaves_the_log_where_it_was(
    source: PartitionLog, copy: PartitionLog, monkeypatch: pytest.MonkeyPatch, had_batches: int
) -> None:
    sent = fetched(source)
    for _, data in sent[:had_batches]:
        copy.append_at(data, 0, NOW_MS)
    end = copy.log_end_offset
    names = sorted(os.listdir(copy.folder))

    def full(fd: int, data: bytes, position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    header, data = sent[6]
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(AppendFailed, match="No space left"):
            copy.append_at(data, header.position, NOW_MS)
    assert copy.log_end_offset == end
    assert sorted(os.listdir(copy.folder)) == names
    answer = copy.append_at(data, header.position, NOW_MS)
    assert isinstance(answer, Appended)
    assert answer.jumped_from == (end if had_batches else None)


def test_a_jump_that_finds_no_room_and_cannot_be_taken_back_waits_for_its_batch(
    source: PartitionLog, copy: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, first_data), (deferred, later_data) = fetched(source)[0], fetched(source)[-1]
    copy.append_at(first_data, 0, NOW_MS)

    def fails(*arguments: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fails)
        patch.setattr(os, "unlink", fails)
        with pytest.raises(AppendFailed, match="Input/output error"):
            copy.append_at(later_data, deferred.position, NOW_MS)
    copy.append_at(later_data, deferred.position, NOW_MS)
    assert [header.position for header, _ in fetched(copy)] == [first.position, deferred.position]


def test_sequences_of_mirrored_batches_are_recorded_and_not_checked(tmp_path: Path, copy: PartitionLog) -> None:
    source = open_log(tmp_path / "source")
    for sequence in (5, 90, 7):
        source.append(batch(b"a", producer_id=11, epoch=0, sequence=sequence), NOW_MS)
    for _, data in fetched(source):
        assert isinstance(copy.append_at(data, 0, NOW_MS), Appended)
    assert 11 in copy.producers
