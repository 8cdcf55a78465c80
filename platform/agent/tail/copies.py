"""Tells whether a new file holds the content of one that is known: compressed after its rotation, or copied before a truncation.

Sure, not likely: as much of the new file as was read of the known one must have the same checksum. A file is checked in
steps, so that a large one does not hold up the others.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from .content import Content
from .tailed_file import IGNORED, TailedFile

MOST_COMPARED = 16
"""Known files with the same head that one new file is compared with."""
STEP_BYTES = 1 << 20


@dataclass(slots=True)
class _Compared:
    file: TailedFile
    begin: int
    end: int
    goal_crc: int
    crc: int = 0


class CopyCheck:
    """Compares one new file with known ones.

    Of a known file that is gone and of which nothing was read, the new one may be the content or not: it is read in its place.
    """

    def __init__(self, known: Iterable[TailedFile]) -> None:
        """`known` have the new file's head."""
        self._compared = [
            _Compared(file, file.place.crc_from, file.place.offset, file.place.content_crc)
            for file in known
            if file.place.offset < IGNORED
        ][:MOST_COMPARED]
        self._offset = 0
        self._is_at_end = not self._compared

    @property
    def is_done(self) -> bool:
        return self._is_at_end or self._offset >= self.longest_bytes

    @property
    def original(self) -> TailedFile | None:
        """Return the file whose content it is, once `is_done`; of several the one of which most was read."""
        same = [one for one in self._compared if one.end <= self._offset and one.crc == one.goal_crc]
        return max(same, key=lambda one: one.end).file if same else None

    @property
    def is_too_early(self) -> bool:
        """Return whether a known file is still to be read, so that there is nothing to compare with."""
        return any(one.begin == one.end and not one.file.is_left for one in self._compared)

    @property
    def longest_bytes(self) -> int:
        """Return how much was read of the known file of which most was read."""
        return max((one.end for one in self._compared), default=0)

    @property
    def known(self) -> list[TailedFile]:
        return [one.file for one in self._compared]

    def is_short(self, size: int) -> bool:
        """Return whether a file of this size may yet become a copy: it is empty, or shorter than a known one's read part."""
        return size == 0 or size < self.longest_bytes

    def step(self, content: Content) -> int:
        """Compare the next piece of the new file; return how many bytes it had. Raises SourceUnreadable."""
        block = content.read(self._offset, STEP_BYTES)
        begin, end = self._offset, self._offset + len(block)
        for one in self._compared:
            first, behind = max(begin, one.begin), min(end, one.end)
            if first < behind:
                one.crc = zlib.crc32(memoryview(block)[first - begin : behind - begin], one.crc)
        self._offset = end
        self._is_at_end = not block
        return len(block)
