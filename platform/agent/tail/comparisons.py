"""Finds out what new files of a section hold: something new, or the content of a file that is known. A few bytes a scan.

Which files may be copies: compressed ones, and with `copytruncate` all. Nothing is concluded from a file that is empty, cut
short, or so young that the rest of it may be on its way. Sure, not likely: as much of a copy as was read of the known file must
have the same checksum.
"""

import os
import stat as stats
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import SourceUnreadable
from .content import Content, OpenContent, is_compressed, open_content
from .folders import FileKey
from .head import MOST_BYTES, Head, heads_of
from .position import IGNORED
from .section import Section
from .tailed_file import TailedFile

COPY_WAIT_MS = 10_000
"""A file that begins as a known one and is shorter than what was read of that may be an unfinished copy, for this long."""
BYTES_COMPARED = 16 << 20
"""Of all files that may be copies, in one scan."""
MOST_COMPARED = 16
"""Known files with the same head that one new file is compared with."""
STEP_BYTES = 1 << 20
LATER = "it is still to be compared with files that are known"


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


class Verdict(NamedTuple):
    """What a new file is."""

    is_decided: bool
    original: TailedFile | None = None
    """The known file whose content it holds; None: it is new."""
    may_be: Collection[TailedFile] = ()
    """While undecided: the files that are not to be forgotten before."""
    why: str = ""
    """Why it is undecided; empty where nothing waits for it: there is nothing in it, or nothing can be read from it."""


NEW = Verdict(is_decided=True)


class Comparisons:
    """The comparisons of one section."""

    def __init__(self, section: Section, *, is_copied: bool) -> None:
        """`is_copied`: rotation copies and truncates."""
        self._section = section
        self._is_copied = is_copied
        self._by_head: dict[Head, list[TailedFile]] = {}
        self._budget_bytes = 0
        self._unfinished: dict[FileKey, CopyCheck] = {}
        """Those of which a part was compared. One that came to no end is begun again: the file may be another one by then."""
        self._damaged: dict[FileKey, tuple[int, int]] = {}
        """Files that cannot be decompressed → their size and time when that was reported."""

    def may_be_a_copy(self, path: str) -> bool:
        return self._is_copied or is_compressed(path)

    def begin_scan(self, known: Iterable[TailedFile]) -> None:
        """Compare with these files, and with those that are added."""
        self._budget_bytes = BYTES_COMPARED
        self._by_head = {}
        for one in known:
            self.add(one)

    def add(self, file: TailedFile) -> None:
        self._by_head.setdefault(file.head, []).append(file)

    def forget_all_but(self, waiting: Collection[FileKey]) -> None:
        """Forget what does not wait any more."""
        for gone in self._unfinished.keys() - waiting:
            del self._unfinished[gone]
        for gone in self._damaged.keys() - waiting:
            del self._damaged[gone]

    def compare(self, key: FileKey, path: str, *, is_rotated: bool) -> Verdict:
        """Return what the file is, as far as that is known now. `is_rotated`: its name says so.

        Raises OSError, and SourceUnreadable while it may still be being written.
        """
        if not self.may_be_a_copy(path):
            return NEW
        stat = os.stat(path)
        if (stat.st_dev, stat.st_ino) != key or not stats.S_ISREG(stat.st_mode):
            return NEW  # it is compared again when reading begins
        if is_compressed(path) and not stat.st_size:
            return Verdict(False, why=LATER if self._is_young(stat) else "")
        if self._damaged.get(key) == (stat.st_size, stat.st_mtime_ns):
            return Verdict(False)
        if not self._by_head and not is_compressed(path):
            return NEW
        if self._budget_bytes <= 0:
            return Verdict(False, why=LATER)
        content = open_content(path)
        try:
            return self._compare(key, path, content, is_rotated=is_rotated)
        except SourceUnreadable as error:
            if self._section.is_in_the_making(stat.st_mtime_ns):
                raise
            self._damaged[key] = stat.st_size, stat.st_mtime_ns
            self._section.note("damaged", path, reason=str(error), then="it is left out until it changes")
            return Verdict(False)
        finally:
            content.close()

    def _compare(self, key: FileKey, path: str, content: OpenContent, *, is_rotated: bool) -> Verdict:
        stat = content.stat()
        if (stat.st_dev, stat.st_ino) != key:
            return NEW
        check = self._unfinished.pop(key, None)
        if check is None:
            first = content.read(0, MOST_BYTES)
            if content.failure is not None:
                raise content.failure
            known = [file for head in heads_of(first) for file in self._by_head.get(head, ())]
            check = CopyCheck(one for one in known if _may_begin_with(one, first))
        if check.is_too_early:
            return Verdict(False, may_be=check.known, why=LATER)
        while not check.is_done and self._budget_bytes > 0:
            self._budget_bytes -= check.step(content)
        if not check.is_done:
            self._unfinished[key] = check
            return Verdict(False, may_be=check.known, why=LATER)
        if check.original is None and not is_compressed(path) and self._is_young(stat):
            # It may grow to be a copy. A name that rotation gives is waited for also while too little of it is there to compare.
            longest = max((head.length for head in self._by_head), default=0)
            if check.is_short(stat.st_size) or (is_rotated and stat.st_size < longest):
                return Verdict(False, may_be=check.known, why=LATER)
        return Verdict(True, check.original)

    def _is_young(self, stat: os.stat_result) -> bool:
        return self._section.clock.now_ms() - stat.st_mtime_ns // 1_000_000 < COPY_WAIT_MS


def _may_begin_with(known: TailedFile, first: bytes) -> bool:
    """Return whether a known file may begin so. Of one that was not read yet the head may be a byte: what is there counts."""
    if known.place.offset or known.is_left or known.is_compressed:
        return True
    stands = known.first_bytes() or b""
    length = min(len(stands), len(first))
    # Where its own head is not at its place any more it is about to be found elsewhere.
    return stands[:length] == first[:length] or not known.head.is_of(stands)
