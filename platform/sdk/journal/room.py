"""Room for a journal's next segment: within the quotas, and made by giving up old segments where that is wanted."""

import os
from collections import Counter
from pathlib import Path

from ...audit.model.messages import DAMAGED_IN_JOURNAL, DROPPED_JOURNAL_FULL
from ...audit.model.windows import window_start_ms
from .errors import JournalRefused
from .files.dropped import Dropped
from .files.head import JournalHead
from .files.layout import HEADER_BYTES, Kind
from .files.segment_reader import Gap, SegmentReader
from .files.segment_writer import SUFFIX, segment_name
from .files.under_way import UnderWay

REFUSED_BY_SCHEMA = "refused_by_schema"
"""The loss that counts a refused event whose quarantine record is lost too."""


class Room:
    """The segments of one journal, as its writer counts them. One thread at a time."""

    def __init__(
        self,
        folder: Path,
        root: Path,
        head: JournalHead,
        *,
        quota_bytes: int,
        root_quota_bytes: int,
        window_ms: int,
    ) -> None:
        self._folder = folder
        self._root = root
        self._head = head
        self._quota_bytes = quota_bytes
        self._root_quota_bytes = root_quota_bytes
        self._window_ms = window_ms
        self._under_way = UnderWay(folder)
        self.dropped = Dropped()
        """What was given up so far."""

    def has_room(self) -> bool:
        """Return whether another segment is within the quotas. Raises OSError."""
        more = self._head.segment_bytes
        return _bytes_in(self._folder) + more <= self._quota_bytes and _bytes_below(self._root) + more <= self._root_quota_bytes

    def give_up_oldest(self, current: int) -> Counter[Kind] | None:
        """Delete the oldest segment that is neither under way nor the current one; return how many records of each kind are lost.

        None if there is no such segment. The losses are in `dropped.json` before the segment is gone. What lies before the
        agent's mark is settled, and no loss: the agent was only not there yet to delete it. Raises OSError.
        """
        with self._under_way.locked() as mark:
            if mark is None:
                return None
            first, last = mark
            for segment in sorted(_segments_in(self._folder)):
                if segment < current and segment < first:
                    (self._folder / segment_name(segment)).unlink(missing_ok=True)
                    return Counter()
                if segment < current and segment > last:
                    kinds, losses = self._content_of(segment)
                    dropped = self.dropped.with_segment(segment, losses)
                    dropped.write(self._folder)
                    self.dropped = dropped
                    (self._folder / segment_name(segment)).unlink(missing_ok=True)
                    return kinds
        return None

    def _content_of(self, segment: int) -> tuple[Counter[Kind], Counter[tuple[int, str]]]:
        kinds: Counter[Kind] = Counter()
        losses: Counter[tuple[int, str]] = Counter()
        window_ms = window_start_ms(self._head.epoch, self._window_ms)
        reader = SegmentReader(self._folder, self._head.id_bytes, segment)
        try:
            for item in reader.records_from(HEADER_BYTES, is_final=True):
                if isinstance(item, Gap):
                    losses[window_ms, DAMAGED_IN_JOURNAL] += 1
                elif not item.is_end:
                    kinds[Kind(item.kind)] += 1
                    window_ms = window_start_ms(item.timestamp_ms, self._window_ms)
                    losses[window_ms, DROPPED_JOURNAL_FULL if item.kind == Kind.EVENT else REFUSED_BY_SCHEMA] += 1
        finally:
            reader.close()
        return kinds, losses


def check_first(root: Path, segment_bytes: int, root_quota_bytes: int) -> None:
    """Raise JournalRefused where a new journal's first segment is beyond the root's quota: an application that is started
    again and again leaves a segment each time, which only an agent clears away.
    """
    taken = _bytes_below(root)
    if taken + segment_bytes > root_quota_bytes:
        raise JournalRefused(
            f"the journals below {root} take {taken} bytes, and one more begins with {segment_bytes}: more than root_quota_bytes "
            f"({root_quota_bytes}). `headrace agent status` says whether an agent ships them and clears them away"
        )


def _segments_in(folder: Path) -> list[int]:
    names = os.listdir(folder)
    return [int(name[: -len(SUFFIX)]) for name in names if name.endswith(SUFFIX) and name[: -len(SUFFIX)].isdigit()]


def _bytes_in(folder: str | Path) -> int:
    """Return the sizes of a folder's segments. One that disappears meanwhile counts nothing."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    try:
                        total += entry.stat(follow_symlinks=False).st_size
                    except FileNotFoundError:
                        continue
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return total


def _bytes_below(root: Path) -> int:
    """Return what all journals of the root take."""
    total = 0
    if not root.is_dir():
        return 0
    with os.scandir(root) as applications:
        for application in applications:
            try:
                with os.scandir(application) as journals:
                    total += sum(_bytes_in(journal.path) for journal in journals)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
    return total
