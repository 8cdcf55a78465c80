"""List the batches and records of a log's folder, from its files alone.

Walks as recovery does: damage is listed at its place, and what follows it is listed too.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from ....wire.batch.record_batch import BatchHeader, Record, iter_records
from ....wire.errors import WireError
from ..folder import segment_bases
from ..preallocated_tail import is_unwritten
from ..segment.bad_range import BadRange
from ..segment.batch_walk import NO_LIMIT, fault_at, walk
from ..segment.file_region import OpenFile
from ..segment.segment_name import file_name

Shown = dict[str, object]
"""One line. `kind` is "batch", "record" or "damage"; the other keys have the names of `wire`."""


def dump(folder: Path, *, from_offset: int = 0, records: bool = False) -> Iterator[Shown]:
    """Yield the batches whose offsets reach `from_offset`, those after it, and their records if asked for.

    Changes nothing. Raises OSError when a file cannot be read.
    """
    bases = segment_bases(folder)
    first = max(0, bisect_right(bases, from_offset) - 1)
    limits = [*bases[1:], NO_LIMIT]
    for base_offset, limit_offset in list(zip(bases, limits, strict=False))[first:]:
        path = folder / file_name(base_offset)
        file = OpenFile(path, os.O_RDONLY)
        file_end = base_offset + os.fstat(file.fd).st_size
        begin = base_offset
        if base_offset < from_offset < file_end and fault_at(file.fd, base_offset, from_offset, from_offset) is None:
            begin = from_offset
        for found in walk(file.fd, base_offset, limit_offset, from_offset=begin):
            if isinstance(found, BatchHeader):
                if found.next_offset > from_offset:
                    yield from _batch(found, path, base_offset, file.fd, from_offset if records else None)
                continue
            if isinstance(found, BadRange):
                to_offset = found.to_offset
            elif limit_offset == NO_LIMIT and is_unwritten(file.fd, found.from_offset - base_offset):
                return
            else:
                to_offset = min(file_end, limit_offset)
            if to_offset > from_offset:
                yield {
                    "kind": "damage",
                    "file": path.name,
                    "position": found.from_offset - base_offset,
                    "from_offset": found.from_offset,
                    "to_offset": to_offset,
                    "reason": found.reason,
                }


def _batch(header: BatchHeader, path: Path, base_offset: int, fd: int, records_from: int | None) -> Iterator[Shown]:
    position = header.position - base_offset
    codec = header.attributes & 7
    yield {
        "kind": "batch",
        "file": path.name,
        "position": position,
        "base_offset": header.base_offset,
        "next_offset": header.next_offset,
        "size_bytes": header.size_bytes,
        "record_count": header.record_count,
        "codec": header.codec.name.lower() if codec <= 4 else f"unknown {codec}",
        "base_timestamp_ms": header.base_timestamp_ms,
        "max_timestamp_ms": header.max_timestamp_ms,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "attributes": header.attributes,
        "crc": f"{header.crc:08x}",
    }
    if records_from is None:
        return
    try:
        for record in iter_records(os.pread(fd, header.size_bytes, position)):
            if record.offset >= records_from:
                yield _record(record)
    except WireError as error:
        yield {"kind": "damage", "file": path.name, "position": position, "from_offset": header.position,
               "to_offset": header.next_offset, "reason": f"its records cannot be read: {error}"}  # fmt: skip


def _record(record: Record) -> Shown:
    return {
        "kind": "record",
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": [list(header) for header in record.headers],
    }
