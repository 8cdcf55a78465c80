"""Compare a sidecar with its segment, batch by batch during a walk, so that memory does not grow with the segment.

An invalid sidecar (damaged, outdated, of another run of the system) is harmless, because a start ignores it. A valid one with
wrong content is not. The sidecars of a copied folder name other files; they are ignored and not reported.
"""

import os
from pathlib import Path

from ....wire.batch.record_batch import BatchHeader
from ..segment import sidecar_file
from ..segment.bad_range import BadRange
from ..segment.sidecar import Sidecar, SidecarDamaged, decode
from .check_producers import ProducerSequences
from .problem import Problem, ProblemKind


class SidecarCheck:
    """One sidecar, beside a walk through its segment."""

    def __init__(self, path: Path, fd: int, limit_offset: int) -> None:
        """Raises OSError when a file cannot be read."""
        self._path = path
        self._sidecar: Sidecar | None = None
        self._unusable: str | None = None
        self._wrong: list[str] = []
        self._next_entry = 0
        self._end_offset = self._end_of_bytes = int(path.name[:20])
        self._peak_ms: int | None = None
        self._producers_there: dict[int, tuple[int, int]] = {}
        """Epoch and base offset of each producer's last batch before `indexed_to`."""
        try:
            sidecar = decode(path.read_bytes())
        except SidecarDamaged as error:
            self._unusable = str(error)
            return
        if sidecar.inode != os.fstat(fd).st_ino:
            return
        self._unusable = sidecar_file.why_invalid(sidecar, int(path.name[:20]), fd, limit_offset)
        if self._unusable is None:
            self._sidecar = sidecar
            self._entries = sidecar.starts.arrays()[0]

    def whole(self, header: BatchHeader) -> None:
        """Add the next whole batch."""
        sidecar = self._sidecar
        position = header.position
        if sidecar is None or position >= sidecar.indexed_to:
            return
        self._end_offset = header.next_offset
        self._end_of_bytes = position + header.size_bytes
        self._peak_ms = header.max_timestamp_ms if self._peak_ms is None else max(self._peak_ms, header.max_timestamp_ms)
        if header.producer_id >= 0 and header.base_sequence >= 0:
            self._producers_there[header.producer_id] = (header.producer_epoch, header.base_offset)
        while self._next_entry < len(self._entries) and self._entries[self._next_entry] <= position:
            entry = self._entries[self._next_entry]
            if entry != position:
                self._wrong.append(f"it names {entry} as a batch's start")
            self._next_entry += 1

    def damaged(self, bad: BadRange) -> None:
        """Add a bad range. Batch starts of the sidecar inside it were right once."""
        sidecar = self._sidecar
        if sidecar is None or bad.from_offset >= sidecar.indexed_to:
            return
        while self._next_entry < len(self._entries) and self._entries[self._next_entry] < bad.to_offset:
            self._next_entry += 1
        self._end_offset = self._end_of_bytes = max(self._end_offset, min(bad.to_offset, sidecar.indexed_to))

    def problems(self, sequences: ProducerSequences) -> list[Problem]:
        """Return the problems, after the walk. `sequences` has seen all batches up to the segment's end."""
        if self._unusable is not None:
            return [Problem(kind=ProblemKind.SIDECAR_UNUSABLE, path=self._path, reason=self._unusable)]
        sidecar = self._sidecar
        if sidecar is None:
            return []
        wrong = self._wrong[:3]
        if self._next_entry < len(self._entries):
            wrong.append(f"it names {self._entries[self._next_entry]} as a batch's start")
        if self._end_offset != sidecar.indexed_to:
            wrong.append(f"it describes up to {sidecar.indexed_to}, where no batch ends")
        peak_ms = sidecar.starts.peak_ms
        if self._peak_ms is not None and (peak_ms is None or peak_ms < self._peak_ms):
            wrong.append(f"its largest timestamp is {peak_ms}, and {self._peak_ms} is there")
        if sidecar.producers is not None:
            known = {producer_id: (epoch, batches[-1][2]) for producer_id, (epoch, batches) in sidecar.producers}
            for producer_id, last in list(self._producers_there.items())[:3]:
                if producer_id in known and known[producer_id] != last:
                    wrong.append(f"it has producer {producer_id} at (epoch, offset) {known[producer_id]} instead of {last}")
        return [Problem(kind=ProblemKind.SIDECAR_WRONG, path=self._path, reason=reason) for reason in wrong]
