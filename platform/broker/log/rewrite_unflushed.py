"""Write again what sidecars describe beyond the last flush that is known to have succeeded, check it, and flush it.

A process may have been killed after a flush failed, or before it saw the failure (`kill -9` while the disk hangs). The system
then keeps the pages that it could not write, treats them as written, and drops them when it needs memory. So these bytes are
written again, and only batches that were whole while they were copied count. Source: Linux, `errseq_t`; what databases
learned about fsync in 2018.
"""

import os
from collections.abc import Sequence

from ...wire.batch.record_batch import BatchHeader
from .segment.bad_range import BadRange
from .segment.batch_walk import Unresolved, walk
from .segment.segment import Segment
from .segment.sidecar import Sidecar


def put_on_disk(
    segments: Sequence[Segment], sidecars: Sequence[Sidecar | None], limits: Sequence[int], flushed_offset: int
) -> int:
    """Write again and flush what these segments hold beyond `flushed_offset`; of the last one, what its sidecar describes.

    Return how many segments from the first on agree with their sidecars, all damage in them known. The sidecars of the others are
    wrong. A segment without a sidecar must reach to its limit, the next one's base. Raises OSError.
    """
    for at, (segment, sidecar, limit) in enumerate(zip(segments, sidecars, limits, strict=True)):
        if limit <= flushed_offset:
            continue
        to_offset = limit
        is_last = at == len(segments) - 1
        if sidecar is not None and (is_last or sidecar.size_bytes == os.fstat(segment.file().fd).st_size):
            to_offset = sidecar.indexed_to
        if to_offset > flushed_offset and not _is_whole_and_on_disk(segment, sidecar, flushed_offset, to_offset):
            return at
    return len(segments)


def _is_whole_and_on_disk(segment: Segment, sidecar: Sidecar | None, flushed_offset: int, to_offset: int) -> bool:
    position = segment.base_offset
    if sidecar is not None and len(sidecar.starts):
        # Not `flushed_offset` itself: when the log start was moved into a batch, that may be inside the batch.
        position = sidecar.starts.last_at_or_before(flushed_offset)
    known = () if sidecar is None else sidecar.bad_ranges
    file = segment.open_for_append()
    status = os.fstat(file.fd)
    is_whole = True
    for found in walk(file.fd, segment.base_offset, to_offset, from_offset=position, rewrites=True):
        is_whole &= isinstance(found, BatchHeader) or _is_among(found, to_offset, known)
        position = _end_of(found, to_offset)
    keep_times(segment, status)
    os.fdatasync(file.fd)
    return is_whole and position >= to_offset


def keep_times(segment: Segment, status: os.stat_result) -> None:
    """Set the file's times back to `status`: retention counts from the last append. Raises OSError."""
    os.utime(segment.path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _is_among(found: BadRange | Unresolved, to_offset: int, known: Sequence[BadRange]) -> bool:
    return any(bad.from_offset <= found.from_offset and _end_of(found, to_offset) <= bad.to_offset for bad in known)


def _end_of(found: BatchHeader | BadRange | Unresolved, to_offset: int) -> int:
    if isinstance(found, BatchHeader):
        return found.next_offset
    return found.to_offset if isinstance(found, BadRange) else to_offset
