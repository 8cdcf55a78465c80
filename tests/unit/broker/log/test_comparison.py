"""A replica's log gives digests of its bytes on disk, and takes repairs."""

from pathlib import Path

import pytest

from headrace.broker.log import BadRange, DamageAhead, PartitionLog, RangeDigest, RepairRefused, digest_of
from tests.support.small_logs import NOW_MS, batch, fetched, more_records_than_bytes, open_log, scrubbed, twelve_batches

pytestmark = pytest.mark.usefixtures("no_fsync")


def digest(log: PartitionLog, from_offset: int, to_offset: int) -> RangeDigest:
    parts = log.comparison.parts(from_offset, to_offset)
    assert parts is not None
    return digest_of(parts)


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def segment_path(log: PartitionLog, offset: int) -> tuple[Path, int]:
    """Return the file that holds `offset`, and where it begins."""
    base = max(one.base_offset for one in log.segments if one.base_offset <= offset)
    return log.folder / f"{base:020d}.log", base


def flip_at(log: PartitionLog, offset: int) -> None:
    path, base = segment_path(log, offset)
    flip(path, offset - base)


def spans(log: PartitionLog, most: int) -> list[tuple[int, int]]:
    found, cursor = [], 0
    while (span := log.comparison.next_range(cursor, most, log.log_end_offset)) is not None:
        found.append(span)
        cursor = span[1]
    return found


@pytest.mark.parametrize("most", [1, 150, 300, 10_000])
def test_ranges_cover_the_closed_segments_once_in_whole_batches(tmp_path: Path, most: int) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300)
    closed_to = log.segments[-1].base_offset
    covered = spans(log, most)
    positions = {header.position for header, _ in fetched(log)}
    assert [begin for begin, _ in covered] == [0, *(end for _, end in covered[:-1])]
    assert covered[-1][1] == closed_to
    assert all(begin in positions and begin < end for begin, end in covered)
    assert log.comparison.next_range(0, most, 0) is None


def test_a_digest_names_every_batch_by_the_bytes_in_front_of_its_crc(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300)
    made = fetched(log)
    end = log.segments[-1].base_offset
    found = digest(log, 0, end)
    assert [one[:2] for one in found.batches] == [(one.position, one.next_offset) for one, _ in made if one.position < end]
    assert [one.head for one in found.batches] == [data[:21] for one, data in made if one.position < end]
    assert (found.damaged, len(found.sum)) == ((), 16)


def test_a_batch_with_more_records_than_bytes_has_its_hole_in_the_digest(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=100_000)
    log.append(batch(b"a"), NOW_MS)
    log.append(more_records_than_bytes(), NOW_MS)
    log.append(batch(b"b"), NOW_MS)
    found = digest(log, 0, log.log_end_offset)
    assert [one.next_offset - one.position > 2_000 for one in found.batches] == [False, True, False]
    assert not found.damaged


@pytest.mark.parametrize("at", [0, 9, 13, 16, 18, 25, 57, 63])
def test_every_flipped_bit_changes_the_digest(tmp_path: Path, at: int) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)
    made, end = fetched(log), log.log_end_offset
    before = digest(log, 0, end)
    flip_at(log, made[3][0].position + at)
    after = digest(log, 0, end)
    assert after.sum != before.sum
    if at == 13:  # the leader epoch, under no CRC
        assert not after.damaged
    else:
        assert [bad[:2] for bad in after.damaged] == [(made[3][0].position, made[4][0].position)]


def test_what_is_known_to_be_wrong_is_damaged_in_the_digest_even_with_a_right_crc(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)
    made = fetched(log)
    bad = BadRange(made[2][0].position, made[3][0].position, "differs")
    assert log.comparison.note_bad(bad)
    assert not log.comparison.note_bad(bad)
    found = digest(log, 0, log.log_end_offset)
    assert found.damaged == (bad,)
    assert made[2][0].position not in [one.position for one in found.batches]


def test_a_range_that_the_log_does_not_hold_has_no_digest(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300)
    assert log.comparison.parts(0, log.log_end_offset + 1) is None
    log.advance_start(log.segments[2].base_offset, NOW_MS)
    assert log.comparison.parts(0, log.log_end_offset) is None


@pytest.mark.parametrize("interval", [1, 150, 100_000])
def test_a_log_that_begins_inside_a_segment_is_compared_behind_its_start(tmp_path: Path, interval: int) -> None:
    log = twelve_batches(tmp_path, segment_bytes=300, index_interval_bytes=interval)
    made = fetched(log)
    second = log.segments[1]
    log.advance_start(second.base_offset + 1, NOW_MS)
    covered = spans(log, 1)
    assert covered
    assert all(log.comparison.parts(*one) is not None for one in covered)
    assert covered[-1][1] == log.segments[-1].base_offset
    after = next(one.position for one, _ in made if one.position > second.base_offset)
    assert covered[0][0] == (after if interval == 1 else second.end_offset if interval == 100_000 else covered[0][0])


def test_a_reader_of_a_replica_does_not_pass_over_damage(tmp_path: Path) -> None:
    """A consumer group would lose the records that the repair brings back."""
    log = twelve_batches(tmp_path, segment_bytes=300, index_interval_bytes=1)
    made = fetched(log)
    log.close()
    flip_at(log, made[5][0].position + 63)
    again = open_log(tmp_path, segment_bytes=300, index_interval_bytes=1)
    again.skips_damage = False
    bad_from, bad_to = made[5][0].position, made[6][0].position
    assert fetched_until_damage(again) == made[:5]
    for offset in (bad_from, bad_from + 1, bad_to - 1):
        with pytest.raises(DamageAhead) as raised:
            again.read(offset, 1_000)
        assert (raised.value.from_offset, raised.value.to_offset) == (bad_from, bad_to)
        assert raised.value.retriable
    region = again.read(bad_to, 1)
    assert region is not None
    assert region.read()[: made[6][0].size_bytes] == made[6][1]


def fetched_until_damage(log: PartitionLog) -> list[tuple[object, bytes]]:
    found: list[tuple[object, bytes]] = []
    try:
        while True:
            offset = found[-1][0].next_offset if found else 0  # type: ignore[attr-defined]
            region = log.read(offset, 1)
            assert region is not None
            from headrace.wire.batch.record_batch import read_header

            found.append((read_header(region.read()), region.read()))
    except DamageAhead:
        return found


@pytest.mark.parametrize("interval", [1, 200, 100_000])
@pytest.mark.parametrize(("first", "last"), [(0, 0), (3, 3), (4, 7), (10, 11), (0, 11)])
def test_a_repaired_log_is_as_it_was(tmp_path: Path, first: int, last: int, interval: int) -> None:
    log = twelve_batches(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=interval)
    made, end = fetched(log), log.log_end_offset
    log.close()
    path = tmp_path / "events-0" / f"{0:020d}.log"
    whole = path.read_bytes()
    for number in range(first, last + 1):
        flip(path, made[number][0].position + 63)
    damaged = path.read_bytes()
    log = open_log(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=interval)
    log.append(batch(b"the last"), NOW_MS) if last < 11 else None
    scrubbed(log)
    log.skips_damage = False
    (bad,) = log.bad_ranges or [BadRange(made[first][0].position, end, "noted")]
    log.comparison.note_bad(bad)
    data = b"".join(data for _, data in made[first : last + 1])
    aside = tmp_path / "aside"
    job = log.comparison.repair_job(bad, memoryview(data), aside)
    repaired = job.run_to_end()
    assert repaired[:2] == (made[first][0].position, made[last][0].next_offset)
    assert path.read_bytes()[: len(whole)] == whole
    assert (aside / f"{repaired.from_offset:020d}.log").read_bytes() == damaged[repaired.from_offset : repaired.to_offset]
    assert log.bad_ranges == []
    for max_bytes in (1, 150, 100_000):
        assert fetched(log, max_bytes=max_bytes)[:12] == made
    for header, _ in made:
        assert log.header_of(header.base_offset) == header
    checkpoint = log.checkpoint_job()
    assert checkpoint is not None
    checkpoint.run_to_end()
    log.close()
    again = open_log(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=interval)
    assert again.bad_ranges == []
    assert fetched(again)[:12] == made


def test_a_repair_of_the_begin_leaves_the_rest_damaged(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=1)
    made = fetched(log)
    for number in (4, 5, 6):
        flip_at(log, made[number][0].position + 63)
    log.comparison.note_bad(BadRange(made[4][0].position, made[7][0].position, "noted"))
    first = log.comparison.repair_job(log.bad_ranges[0], memoryview(made[4][1]), tmp_path / "aside").run_to_end()
    assert first.record_count == made[4][0].record_count
    assert [bad[:2] for bad in log.bad_ranges] == [(made[5][0].position, made[7][0].position)]
    rest = made[5][1] + made[6][1] + made[7][1]
    log.comparison.repair_job(log.bad_ranges[0], memoryview(rest), tmp_path / "aside").run_to_end()
    assert (log.bad_ranges, fetched(log)) == ([], made)


@pytest.mark.parametrize("wrong", ["crc", "place", "too long", "nothing", "cut"])
def test_bytes_that_are_not_what_was_damaged_are_refused(tmp_path: Path, wrong: str) -> None:
    log = twelve_batches(tmp_path / "events-0", segment_bytes=10_000)
    made = fetched(log)
    bad = BadRange(made[4][0].position, made[5][0].position, "noted")
    data = bytearray(made[4][1])
    if wrong == "crc":
        data[63] ^= 1
    elif wrong == "place":
        data = bytearray(made[5][1])
    elif wrong == "too long":
        bad = bad._replace(to_offset=bad.to_offset - 1)
    elif wrong == "nothing":
        data = bytearray()
    else:
        del data[-1]
    with pytest.raises(RepairRefused):
        log.comparison.repair_job(bad, memoryview(data), tmp_path / "aside")
    assert not (tmp_path / "aside").exists()


def test_a_scrub_that_was_under_way_does_not_report_what_was_repaired_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.log.jobs.segment_scrub.PART_BATCHES", 2)
    log = twelve_batches(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=1)
    made = fetched(log)
    log.close()
    flip_at(log, made[0][0].position + 63)
    log = open_log(tmp_path / "events-0", segment_bytes=10_000, index_interval_bytes=1)
    first = log.scrub_job()
    assert first is not None
    first.run()
    assert [bad[:2] for bad in first.done()] == [(0, made[1][0].position)]
    second = log.scrub_job()
    assert second is not None
    second.run()
    log.comparison.repair_job(log.bad_ranges[0], memoryview(made[0][1]), tmp_path / "aside").run_to_end()
    assert second.done() == []
    scrubbed(log)
    assert (log.bad_ranges, fetched(log)) == ([], made)


def test_a_sidecar_that_was_being_written_during_a_repair_is_written_again(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path / "events-0", segment_bytes=300, index_interval_bytes=1)
    made = fetched(log)
    flip_at(log, made[0][0].position + 63)
    log.comparison.note_bad(BadRange(0, made[1][0].position, "noted"))
    stale = log.checkpoint_job()
    assert stale is not None
    log.comparison.repair_job(log.bad_ranges[0], memoryview(made[0][1]), tmp_path / "aside").run_to_end()
    stale.run()
    stale.done()
    fresh = log.checkpoint_job()
    assert fresh is not None
    fresh.run_to_end()
    again = open_log(tmp_path / "events-0", segment_bytes=300, index_interval_bytes=1)
    assert (again.bad_ranges, fetched(again)) == ([], made)


def test_what_was_deleted_is_damage_no_more(tmp_path: Path) -> None:
    log = twelve_batches(tmp_path, segment_bytes=10_000)
    made = fetched(log)
    bad = BadRange(made[2][0].position, made[3][0].position, "differs")
    assert log.comparison.note_bad(bad)
    log.advance_start(bad.to_offset - 1, NOW_MS)
    assert log.bad_ranges == [bad]
    log.advance_start(bad.to_offset, NOW_MS)
    assert log.bad_ranges == []


@pytest.mark.parametrize("interval", [1, 200, 100_000])
@pytest.mark.parametrize("inside", [0, 1])
def test_damage_around_the_start_of_the_log_is_repaired_from_the_batch_that_holds_the_start(
    tmp_path: Path, interval: int, inside: int
) -> None:
    """DeleteRecords inside damage: no other replica need have what was before."""
    folder = tmp_path / "events-0"
    log = twelve_batches(folder, segment_bytes=10_000, index_interval_bytes=interval)
    made, end = fetched(log), log.log_end_offset
    for number in (3, 4, 5, 6):
        flip_at(log, made[number][0].position + 63)
    log.skips_damage = False
    assert log.comparison.note_bad(BadRange(made[3][0].position, made[7][0].position, "noted"))
    log.advance_start(made[5][0].position + inside, NOW_MS)
    (bad,) = log.bad_ranges
    for wrong in (made[2][1], made[6][1]):
        with pytest.raises(RepairRefused):
            log.comparison.repair_job(bad, memoryview(wrong), tmp_path / "aside")
    repaired = log.comparison.repair_job(bad, memoryview(made[5][1] + made[6][1]), tmp_path / "aside").run_to_end()
    assert repaired[:2] == (made[5][0].position, made[7][0].position)
    assert log.bad_ranges == []
    assert fetched(log) == made[5:]
    log.close()
    again = open_log(folder, segment_bytes=10_000, index_interval_bytes=interval)
    scrubbed(again)
    again.skips_damage = False
    assert (again.log_start_offset, again.log_end_offset, again.bad_ranges) == (made[5][0].position + inside, end, [])
    assert fetched(again) == made[5:]
