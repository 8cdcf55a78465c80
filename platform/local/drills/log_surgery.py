"""Changes a stopped broker's files so that the log stays valid and says something else: a batch cut out, appended again, altered
with its CRC made right, a segment gone. With `batch_damage` these are the faults of the drills.

Writes only into the files of a broker that does not run, and with none of the broker's code. Keeps the modification times, which
are the segments' ages. Layout of a partition: docs/FORMATS.md.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from ...wire.batch.crc32c import crc32c
from .batch_damage import StoredBatch

_CRC_AT, _CRC_COVERS_FROM = 17, 21


def cut_out(batch: StoredBatch) -> None:
    """Take the batch out of the log. The segment ends before it and a new one begins behind it: every other batch keeps its
    bytes and its offsets.
    """
    head, rest = _parts(batch, batch.end_position)
    if not rest.strip(b"\0"):
        raise ValueError(f"the batch at {batch.base_offset} is the last of {batch.path}: without it that log would end earlier")
    _replace(batch.path.with_name(f"{batch.next_offset:020d}.log"), rest, like=batch.path)
    if head:
        _replace(batch.path, head)
    else:
        remove_segment(batch.path)


def split_before(batch: StoredBatch) -> None:
    """Make a segment begin with the batch. The log stays the same."""
    head, rest = _parts(batch, batch.position)
    if head:
        _replace(batch.path.with_name(f"{batch.segment_base + batch.position:020d}.log"), rest, like=batch.path)
        _replace(batch.path, head)


def remove_segment(path: Path) -> None:
    """Delete one segment file, with its sidecars."""
    _forget_sidecars(path)
    path.unlink()
    _sync(path.parent)


def cut_tail(batch: StoredBatch) -> None:
    """Let the log end before the batch, as after a power cut that took what was not flushed. Later segments go."""
    head, _ = _parts(batch, batch.position)
    for path in sorted(batch.path.parent.glob("*.log")):
        if path.stem > batch.path.stem:
            remove_segment(path)
    _replace(batch.path, head)


def append_again(batch: StoredBatch, stored: Iterable[StoredBatch]) -> int:
    """Append a copy of the batch at the end of its partition, as a broker stores it; return the offset of its first record.

    `stored` are the partition's batches as they are now, or those of another topic's partition with the same number.
    """
    last = max((one for one in stored if one.partition == batch.partition), key=lambda one: one.next_offset)
    copy = bytearray(batch.path.read_bytes()[batch.position : batch.position + batch.size_bytes])
    at = last.end_position
    first = last.segment_base + at + max(len(copy), batch.record_count) - batch.record_count
    struct.pack_into(">q", copy, 0, first)
    _replace(last.path, last.path.read_bytes()[:at].ljust(at, b"\0") + copy)
    return first


def alter(batch: StoredBatch, old: bytes, new: bytes) -> None:
    """Replace `old` in the batch's records by `new` of the same length, and make the CRC right. `old` must be there once."""
    raw = bytearray(batch.path.read_bytes())
    end = batch.position + batch.size_bytes
    if raw.count(old, batch.position, end) != 1 or len(old) != len(new) or old == new:
        raise ValueError(f"{old!r} cannot be replaced by {new!r} in the batch at {batch.base_offset} of {batch.path}")
    at = raw.index(old, batch.position, end)
    raw[at : at + len(new)] = new
    struct.pack_into(">I", raw, batch.position + _CRC_AT, crc32c(raw[batch.position + _CRC_COVERS_FROM : end]))
    _replace(batch.path, bytes(raw))


def _parts(batch: StoredBatch, cut_at: int) -> tuple[bytes, bytes]:
    """Return the segment's bytes before the batch, and those from `cut_at` on."""
    raw = batch.path.read_bytes()
    return raw[: batch.position], raw[cut_at:]


def _replace(path: Path, content: bytes, like: Path | None = None) -> None:
    """Write the file again, with the modification time that `like` (or it) had; its sidecars describe another file now."""
    status = (like or path).stat()
    _forget_sidecars(path)
    new = path.with_name(f"{path.name}.drill")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.chown(new, status.st_uid, status.st_gid)
    new.replace(path)
    _sync(path.parent)


def _forget_sidecars(path: Path) -> None:
    for suffix in (".index", ".recent"):
        path.with_suffix(suffix).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
