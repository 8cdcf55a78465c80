"""Faults in a log's files leave every other byte as it was. What a broker makes of them: tests/integration/local."""

import os
from pathlib import Path

import pytest

from headrace.local.drills import log_surgery
from headrace.local.drills.batch_damage import StoredBatch, stored_batches
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import BatchBuilder, place

OLD_NS = 1_400_000_000_000_000_000


def write(folder: Path, values: list[bytes]) -> list[StoredBatch]:
    """Write one batch a value, as a broker lays them out, the file old and with sidecars; return them."""
    log = folder / "clicks-0" / f"{0:020d}.log"
    log.parent.mkdir()
    raw = bytearray()
    for value in values:
        builder = BatchBuilder(Codec.NONE, producer_id=-1, producer_epoch=0, base_sequence=0)
        builder.append(5, None, value)
        one = bytearray(builder.build())
        place(memoryview(one), len(raw))
        raw += one
    log.write_bytes(bytes(raw) + b"\0" * 512)
    for suffix in (".index", ".recent"):
        log.with_suffix(suffix).write_bytes(b"of the old file")
    os.utime(log, ns=(OLD_NS, OLD_NS))
    return stored_batches(folder, "clicks")


def content(batches: list[StoredBatch]) -> list[bytes]:
    return [one.path.read_bytes()[one.position : one.position + one.size_bytes] for one in batches]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "clicks-0").iterdir())


def test_a_batch_cut_out_leaves_two_segments_with_all_other_bytes_and_the_old_age(tmp_path: Path) -> None:
    stored = write(tmp_path, [b"one", b"two", b"three", b"four"])
    whole = content(stored)
    log_surgery.cut_out(stored[1])
    left = stored_batches(tmp_path, "clicks")
    assert content(left) == [whole[0], *whole[2:]]
    assert [one.base_offset for one in left] == [stored[at].base_offset for at in (0, 2, 3)]
    assert files(tmp_path) == [f"{0:020d}.log", f"{stored[1].next_offset:020d}.log"], "no sidecar of the old file is left"
    assert {path.stat().st_mtime_ns for path in (tmp_path / "clicks-0").iterdir()} == {OLD_NS}


def test_the_last_batch_is_refused(tmp_path: Path) -> None:
    """Without it the log would only end earlier: that is not a hole."""
    stored = write(tmp_path, [b"one", b"two"])
    with pytest.raises(ValueError, match="is the last"):
        log_surgery.cut_out(stored[1])
    assert content(stored_batches(tmp_path, "clicks")) == content(stored)


def test_a_batch_appended_again_differs_in_its_base_offset_alone(tmp_path: Path) -> None:
    stored = write(tmp_path, [b"one", b"two", b"three"])
    whole = content(stored)
    first = log_surgery.append_again(stored[0], stored)
    left = stored_batches(tmp_path, "clicks")
    assert content(left)[:3] == whole
    assert content(left)[3][8:] == whole[0][8:]
    assert left[3].base_offset == first >= stored[2].next_offset
    assert left[3].is_sound


def test_a_batch_altered_has_the_new_bytes_and_a_right_crc(tmp_path: Path) -> None:
    stored = write(tmp_path, [b"one", b"two", b"three"])
    whole = content(stored)
    log_surgery.alter(stored[1], b"two", b"twx")
    left = stored_batches(tmp_path, "clicks")
    assert [one.is_sound for one in left] == [True] * 3
    assert left[1].crc != stored[1].crc
    assert content(left)[1][61:] == whole[1][61:].replace(b"two", b"twx")
    assert [content(left)[at] for at in (0, 2)] == [whole[at] for at in (0, 2)]
    for old, new in ((b"two", b"twelve"), (b"three", b"thre3"), (b"twx", b"twx")):
        with pytest.raises(ValueError, match="cannot be replaced"):
            log_surgery.alter(left[1], old, new)


def test_a_split_changes_nothing_and_a_segment_removed_is_gone(tmp_path: Path) -> None:
    stored = write(tmp_path, [b"one", b"two", b"three"])
    log_surgery.split_before(stored[1])
    split = stored_batches(tmp_path, "clicks")
    assert content(split) == content(stored_batches(tmp_path, "clicks"))
    assert len({one.path for one in split}) == 2
    log_surgery.split_before(split[2])
    log_surgery.remove_segment(split[1].path)
    assert [one.base_offset for one in stored_batches(tmp_path, "clicks")] == [stored[0].base_offset, stored[2].base_offset]


def test_a_tail_cut_ends_the_log_before_the_batch_with_all_later_segments_gone(tmp_path: Path) -> None:
    stored = write(tmp_path, [b"one", b"two", b"three", b"four"])
    whole = content(stored)
    log_surgery.split_before(stored[3])
    log_surgery.cut_tail(stored_batches(tmp_path, "clicks")[2])
    assert content(stored_batches(tmp_path, "clicks")) == whole[:2]
    assert files(tmp_path) == [f"{0:020d}.log"]
