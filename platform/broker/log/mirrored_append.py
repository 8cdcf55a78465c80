"""Write a mirrored batch at its source's offset. Only the leader epoch in its bytes is changed.

`conditional_append` decides what happens to the batch; this file does it. Sequences are recorded, not checked.
"""

import contextlib

from ...wire.batch.record_batch import BatchHeader, advance_of
from .conditional_append import AlreadyThere, Appended, Refused, RefusedBecause, Step, decide
from .errors import AppendFailed
from .log_end import LogEnd
from .log_name import LogName
from .segments import Segments

_EPOCH_AT, _EPOCH_END = 12, 16


class MirroredAppend:
    """Appends to the log of these `segments`, whose growing end is `end`."""

    def __init__(self, name: LogName, segments: Segments, end: LogEnd) -> None:
        self._name = name
        self._segments = segments
        self._end = end

    def append(
        self,
        batch: bytearray | memoryview | bytes,
        header: BatchHeader,
        source_log_start_offset: int,
        now_ms: int,
        *,
        leader_epoch: int,
    ) -> Appended | AlreadyThere | Refused:
        """Write a whole batch at its own position, if it belongs there. Raises `AppendFailed`, `LogUnusable`, `FolderFault`."""
        log_end_offset = self._segments.active.end_offset
        decision = decide(
            header,
            log_start_offset=self._segments.start_offset,
            log_end_offset=log_end_offset,
            source_log_start_offset=source_log_start_offset,
        )
        match decision:
            case Refused():
                return decision
            case Step.COMPARE:
                return self._compare(header, source_log_start_offset)
            case Step.APPEND:
                return self._append_verbatim(batch, header, leader_epoch, now_ms)
            case Step.START | Step.JUMP:
                undo = self._end.move_to(header.position, header.size_bytes, now_ms)
                try:
                    appended = self._append_verbatim(batch, header, leader_epoch, now_ms)
                except AppendFailed:
                    with contextlib.suppress(OSError):  # Otherwise the log end stays where the batch belongs.
                        undo()
                    raise
                return appended._replace(jumped_from=log_end_offset if decision is Step.JUMP else None)

    def _append_verbatim(
        self, batch: bytearray | memoryview | bytes, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> Appended:
        advance = advance_of(header.size_bytes, header.record_count)
        segment = self._end.segment_for(advance, header.size_bytes, now_ms)
        if header.leader_epoch != leader_epoch:
            if isinstance(batch, bytes) or (isinstance(batch, memoryview) and batch.readonly):
                batch = bytearray(batch)
            batch[_EPOCH_AT:_EPOCH_END] = leader_epoch.to_bytes(4, "big", signed=True)
        self._end.write(segment, batch, header, advance, now_ms)
        return Appended(header.base_offset, header.next_offset)

    def _compare(self, header: BatchHeader, source_log_start_offset: int) -> AlreadyThere | Refused:
        position = header.position
        segment = self._segments.holding(position)
        try:
            there = segment.header_at(position)
        except OSError as error:
            raise self._name.fault(error) from error
        if there is not None and (there.crc, there.size_bytes) == (header.crc, header.size_bytes):
            return AlreadyThere(there.base_offset, there.next_offset)
        is_damaged = any(bad.from_offset <= position < bad.to_offset for bad in segment.index.bad_ranges)
        return Refused(
            because=RefusedBecause.DAMAGED_HERE if is_damaged else RefusedBecause.DIFFERENT_BATCH,
            position=position,
            log_start_offset=self._segments.start_offset,
            log_end_offset=self._segments.active.end_offset,
            source_log_start_offset=source_log_start_offset,
        )
