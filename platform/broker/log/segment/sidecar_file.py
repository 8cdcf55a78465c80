"""Sidecars in a partition's folder: written whole or not at all, used only when they fit the segment beside them.

`<base>.index` describes what is on disk and stays valid. `<base>.recent` describes what may only be in the system's page cache,
and is valid until the system restarts. Neither is flushed: without its sidecar a segment is walked. A sidecar is ignored when it
is damaged or names another file, a longer file, or a file with another last batch.
"""

import contextlib
import os
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from ....wire.batch.record_batch import HEADER_SIZE, read_header
from ....wire.errors import CorruptBatch
from . import boot_id
from .file_region import OpenFile
from .sidecar import Sidecar, SidecarDamaged, decode

INDEX_SUFFIX = ".index"
RECENT_SUFFIX = ".recent"
SCRATCH_SUFFIX = ".new"
SUFFIXES = (INDEX_SUFFIX, RECENT_SUFFIX)


def path_of(folder: Path, base_offset: int, suffix: str) -> Path:
    return folder / f"{base_offset:020d}{suffix}"


def write(folder: Path, sidecar: Sidecar) -> None:
    """Write the sidecar in the place of the older one. From any thread. Raises OSError."""
    path = path_of(folder, sidecar.base_offset, INDEX_SUFFIX if sidecar.is_flushed else RECENT_SUFFIX)
    scratch = path.with_name(path.name + SCRATCH_SUFFIX)
    try:
        scratch.write_bytes(sidecar.encode())
        os.rename(scratch, path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise
    if sidecar.is_flushed:
        path_of(folder, sidecar.base_offset, RECENT_SUFFIX).unlink(missing_ok=True)


def remove(folder: Path, base_offset: int) -> None:
    """Remove a segment's sidecars, if there are any. Raises OSError."""
    for suffix in SUFFIXES:
        path_of(folder, base_offset, suffix).unlink(missing_ok=True)


def remove_strays(folder: Path, names: Iterable[str], bases: Sequence[int]) -> None:
    """Remove the sidecars among `names` that belong to no segment of `bases`. Raises OSError."""
    known = set(bases)
    for name in names:
        if is_name(name) and int(name[:20]) not in known:
            (folder / name).unlink(missing_ok=True)


def is_name(name: str) -> bool:
    """Return whether a file of this name is a sidecar."""
    digits, dot, suffix = name.partition(".")
    return len(digits) == 20 and digits.isascii() and digits.isdigit() and dot + suffix in SUFFIXES


def valid_one(folder: Path, names: Container[str], base_offset: int, file: OpenFile, limit_offset: int) -> Sidecar | None:
    """Return the valid sidecar that describes most of the segment in `file`, None when there is none. Remove invalid ones.

    `names` are the files in `folder`; the next segment begins at `limit_offset`. Raises OSError when the segment's file cannot be
    read.
    """
    found = None
    for suffix in SUFFIXES:
        path = path_of(folder, base_offset, suffix)
        if path.name not in names:
            continue
        try:
            sidecar = _read(path)
            reason = why_invalid(sidecar, base_offset, file.fd, limit_offset)
        except SidecarDamaged as error:
            reason = str(error)
        if reason is not None:
            path.unlink(missing_ok=True)
        elif found is None or found.indexed_to < sidecar.indexed_to:
            found = sidecar
    return found


def _read(path: Path) -> Sidecar:
    """Return the file's content. Raises `SidecarDamaged`, also when the file cannot be read: it is disposable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SidecarDamaged(f"it cannot be read: {error.strerror or error}") from error
    return decode(data)


def why_invalid(sidecar: Sidecar, base_offset: int, fd: int, limit_offset: int) -> str | None:
    """Return why a sidecar is not valid for this file, None when it is valid. Raises OSError."""
    if not sidecar.is_flushed and sidecar.boot_id != boot_id.current():
        return "it was written before the system last started, of data that were not on disk then"
    status = os.fstat(fd)
    if sidecar.base_offset != base_offset or sidecar.inode != status.st_ino:
        return "it is about another file (a copy has none of its own)"
    if status.st_size < sidecar.size_bytes or not base_offset <= sidecar.indexed_to <= limit_offset:
        return f"it describes {sidecar.size_bytes} bytes up to {sidecar.indexed_to}, and the file has {status.st_size}"
    if sidecar.last_batch_offset < 0:
        return None if sidecar.size_bytes == 0 else "it names no last batch"
    try:
        header = read_header(os.pread(fd, HEADER_SIZE, sidecar.last_batch_offset - base_offset))
    except CorruptBatch as error:
        return f"where its last batch begins there is none: {error}"
    if (header.position, header.crc, header.next_offset) != (
        sidecar.last_batch_offset,
        sidecar.last_batch_crc,
        sidecar.indexed_to,
    ):
        return f"the batch at {sidecar.last_batch_offset} is not the one that it describes"
    return None
