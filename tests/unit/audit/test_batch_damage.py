"""What drill loss does to files: finds whole batches by itself, damages only chosen ones, and only their payload."""

from pathlib import Path

from headrace.local.drills.batch_damage import StoredBatch, choose, damage, stored_batches
from headrace.wire.batch.record_batch import iter_batches, place, read_header

from .batches import batch

W = 600_000
HOUR_MS = 6 * W


def write(folder: Path, batches: list[list[int]], *, segment_base: int = 0) -> None:
    """Write one segment as the broker lays it out: each batch at its own offset, holes where records outnumber bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = bytearray()
    at = segment_base
    for timestamps in batches:
        header, view = batch(timestamps)
        one = bytearray(view)
        advance = place(memoryview(one), at)
        raw += one + b"\0" * (advance - header.size_bytes)
        at += advance
    (folder / f"{segment_base:020d}.log").write_bytes(raw)


def test_every_batch_is_found_with_its_window_and_count(tmp_path: Path) -> None:
    write(tmp_path / "clicks-0", [[1, 2], [W, W + 1, W + 2], [1, W]])
    write(tmp_path / "clicks-1", [[5]], segment_base=700)
    write(tmp_path / "clicks.other-0", [[5]])
    found = stored_batches(tmp_path, "clicks")
    assert [(one.partition, one.record_count, one.window_start_ms(W)) for one in found] == [
        (0, 2, 0),
        (0, 3, W),
        (0, 2, None),
        (1, 1, 0),
    ]
    assert [one.base_offset + one.record_count for one in found] == [one.next_offset for one in found]
    assert found[1].next_offset == found[0].next_offset + found[1].size_bytes
    assert all(one.is_sound for one in found)


def test_damage_breaks_the_crc_and_leaves_header_and_neighbours_alone(tmp_path: Path) -> None:
    write(tmp_path / "clicks-0", [[1, 2], [3], [4]])
    first, second, third = stored_batches(tmp_path, "clicks")
    damage(second)
    again = stored_batches(tmp_path, "clicks")
    assert [one.is_sound for one in again] == [True, False, True]
    assert [one.base_offset for one in again] == [first.base_offset, second.base_offset, third.base_offset]
    raw = second.path.read_bytes()
    assert read_header(raw, second.position).record_count == 1
    assert len(list(iter_batches(raw))) == 3


def chosen_hours(batches: list[StoredBatch], count: int) -> set[int]:
    return {one.max_timestamp_ms // HOUR_MS for one in choose(batches, count=count, window_ms=W)}


def test_chosen_batches_lie_in_hours_of_their_own_and_leave_one_hour_whole(tmp_path: Path) -> None:
    write(tmp_path / "clicks-0", [[hour * HOUR_MS + at] for hour in range(5) for at in range(4)])
    batches = stored_batches(tmp_path, "clicks")
    for count in (1, 2, 3, 10):
        picked = choose(batches, count=count, window_ms=W)
        assert len(picked) == len(chosen_hours(batches, count)) == min(count, 4)


def test_the_end_of_a_partition_and_what_is_damaged_already_are_never_chosen(tmp_path: Path) -> None:
    write(tmp_path / "clicks-0", [[1, 2, 3], [4, 5], [6], [7]])
    batches = stored_batches(tmp_path, "clicks")
    (picked,) = choose(batches, count=5, window_ms=W)
    assert picked == batches[0]
    damage(picked)
    (picked,) = choose(stored_batches(tmp_path, "clicks"), count=5, window_ms=W)
    assert picked.base_offset == batches[1].base_offset
    write(tmp_path / "short-0", [[1], [2]])
    assert choose(stored_batches(tmp_path, "short"), count=5, window_ms=W) == []
