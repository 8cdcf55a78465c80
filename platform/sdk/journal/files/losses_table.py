"""The counts of what the application was refused, in a small mapped file beside the segments: they survive a kill.

    header, 64 bytes: magic b"HRLOSSES", u32 version, u32 slots, zeros      slot, 48 bytes
    The byte order is the machine's: writer and reader share it.             0  i64  window_start_ms
                                                                             8  u64  count; 0: the slot is free
                                                                            16  32s  name, ASCII, zeros behind

A count is one aligned store, made last: a kill leaves the old one or the new one. When all slots but the last are taken, further
pairs are counted there, by no window and under the name `*`: bounded, and never forgotten.
"""

import mmap
import os
import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import JournalDamaged, JournalTooNew
from .dropped import Losses

LOSSES_FILE = "losses"
MAGIC = b"HRLOSSES"
VERSION = 1
SLOTS = 4096
"""A loss of each name in each window of two weeks and more. 192 KB."""
_HEADER = struct.Struct("=8sII48x")
_SLOT = struct.Struct("=qQ32s")


@dataclass(frozen=True, slots=True)
class LossTotals:
    """What a table holds."""

    counts: Losses = field(default_factory=dict)
    unassigned: int = 0
    """Losses that found no slot: their windows and names are not known."""


class LossesTable:
    """The table, open for counting. Any thread may count, also from a signal handler or `__del__` that interrupts a count."""

    def __init__(self, path: Path, slots: int = SLOTS) -> None:
        """Make the file. Raises OSError."""
        size = _HEADER.size + slots * _SLOT.size
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, size)
            self._memory = mmap.mmap(file, size)
        finally:
            os.close(file)
        _HEADER.pack_into(self._memory, 0, MAGIC, VERSION, slots)
        self._words = memoryview(self._memory).cast("Q")
        self._slots = slots
        self._slot_of: dict[tuple[int, str], int] = {}
        self._waiting: deque[tuple[tuple[int, str], int]] = deque()
        self._adding = threading.RLock()
        self._names: dict[str, int] = {}

    def add(self, window_start_ms: int, name: str, count: int = 1) -> None:
        """Count `count` more. They are in the file when this returns, or when the frame below returns that was interrupted."""
        self._waiting.append(((window_start_ms, name), count))
        while self._waiting:
            if self._adding._is_owned():  # type: ignore[attr-defined]
                return  # This call interrupted a count of its own thread, which continues with what waits.
            with self._adding:
                while self._waiting:
                    self._store(*self._waiting.popleft())

    def sync(self) -> None:
        """Return once the counts are on the disk. Raises OSError."""
        self._memory.flush()

    def by_name(self) -> dict[str, int]:
        """Return the totals over all windows."""
        return dict(self._names)

    def _store(self, key: tuple[int, str], count: int) -> None:
        slot = self._slot_of.get(key)
        if slot is None:
            slot = min(len(self._slot_of), self._slots - 1)
            window_start_ms, name = key if slot < self._slots - 1 else (0, "*")
            _SLOT.pack_into(self._memory, _at(slot), window_start_ms, self._words[_at(slot) // 8 + 1], name.encode()[:32])
            if slot < self._slots - 1:
                self._slot_of[key] = slot
        self._words[_at(slot) // 8 + 1] += count
        self._names[key[1]] = self._names.get(key[1], 0) + count

    @classmethod
    def read(cls, path: Path) -> LossTotals:
        """Return what a table's file holds, its writer alive or not. Raises `JournalDamaged`, `JournalTooNew`."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise JournalDamaged(f"{path} cannot be read: {error.strerror}") from None
        if len(content) < _HEADER.size or content[:8] != MAGIC:
            raise JournalDamaged(
                f"{path} is not a table of losses of this machine: {len(content)} bytes that begin with {content[:8]!r}"
            )
        _, version, slots = _HEADER.unpack_from(content)
        if version > VERSION:
            raise JournalTooNew(str(path), version, VERSION)
        if len(content) < _HEADER.size + slots * _SLOT.size:
            raise JournalDamaged(f"{path} has {len(content)} bytes, too few for {slots} slots: it was cut")
        counts: dict[tuple[int, str], int] = {}
        unassigned = 0
        for slot in range(slots):
            window_start_ms, count, name = _SLOT.unpack_from(content, _at(slot))
            if not count:
                continue
            if slot == slots - 1:
                unassigned = count
            else:
                counts[window_start_ms, name.rstrip(b"\0").decode("ascii", "backslashreplace")] = count
        return LossTotals(counts, unassigned)


def _at(slot: int) -> int:
    return _HEADER.size + slot * _SLOT.size
