"""A journal as its reader sees it: the agent, and `headrace journal`. Reading changes nothing in the folder."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from .errors import JournalDamaged, JournalLocked, SegmentGivenUp
from .files.dropped import Dropped
from .files.head import HEAD_FILE, JournalHead
from .files.layout import HEADER_BYTES, RECORD_HEAD_BYTES, Kind, RawRecord
from .files.losses_table import LOSSES_FILE, LossesTable, LossTotals
from .files.plain_records import RecordList, RecordSink
from .files.segment_reader import Gap, SegmentReader
from .files.segment_writer import SUFFIX, segment_name
from .files.under_way import UnderWay
from .files.writer_process import boot_id, is_alive, lock_file
from .position import JournalChunk, JournalRecord, Position, Unreadable

READER_LOCK = "reader.lock"


class Journal:
    """One journal. A thread at a time may use it; `lock` keeps other agents out. Each method raises `JournalError`s by name."""

    def __init__(self, folder: Path) -> None:
        """Read the head. Raises `JournalDamaged`, `JournalTooNew`."""
        self.folder = folder
        self.head = JournalHead.read(folder)
        self._reader: SegmentReader | None = None
        self._lock: int | None = None
        self._under_way = UnderWay(folder)
        self._missing_from: dict[int, int] = {}
        """Segments that a reading found given up → the byte from which on it therefore has nothing of them."""

    def lock(self) -> None:
        """Keep every other reader that locks out, until `close` or this process's end. Raises `JournalLocked`."""
        if self._lock is None:
            self._lock = lock_file(self.folder / READER_LOCK)
            if self._lock is None:
                raise JournalLocked(f"another agent ships {self.folder}: run one agent for a folder of journals")

    def close(self) -> None:
        """Let go of the files and the lock."""
        self.close_segment()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def is_alive(self) -> bool:
        """Return whether its writer may still write."""
        return is_alive(self.folder, self.head.writer)

    def segments(self) -> list[int]:
        """Return the numbers of the segments that are there, ascending."""
        try:
            names = os.listdir(self.folder)
        except OSError as error:
            raise JournalDamaged(f"{self.folder} cannot be listed: {error.strerror}") from None
        return sorted(int(name[: -len(SUFFIX)]) for name in names if name.endswith(SUFFIX) and name[: -len(SUFFIX)].isdigit())

    def read(
        self, position: Position, most_bytes: int, *, until: Position | None = None, into: RecordSink | None = None
    ) -> JournalChunk:
        """Return what stands from `position` on: about `most_bytes` of records, at least one if one is there; not beyond `until`.

        What the writer has not finished is 'not yet': the chunk ends before it. An empty chunk whose end is `position`:
        there is nothing more for now. `into` takes the records in the chunk's place. Raises `JournalDamaged` when a file
        is gone or cut while its writer lives, and `JournalTooNew`.
        """
        # Asked before anything is read: what a writer wrote before its death is seen by who reads after it.
        records = RecordList()
        walk = _Walk(self, position, most_bytes, until, into or records, is_alive=self.is_alive)
        end, unreadable = walk.run()
        return JournalChunk(records.records, end, unreadable)

    def is_ended(self, position: Position) -> bool:
        """Return whether nothing is behind `position`, and nothing ever will: closed, or its writer is dead."""
        is_over = not self.is_alive or position.byte == self.head.segment_bytes
        return is_over and self.read(position, 1).end == position

    def lacks_tail(self, position: Position) -> bool:
        """Return whether records may be missing behind `position`, the end of an ended journal, and no number tells how many.

        So it is after a power cut, unless each event was made durable or the journal was closed. Windows of this run are then
        never complete: it must not be sealed.
        """
        if self.head.is_durable or position.byte == self.head.segment_bytes:
            return False
        return self.head.writer.boot_id != boot_id()

    def losses(self) -> LossTotals:
        """Return what the application was refused and what was given up to make room, in all so far."""
        table = LossesTable.read(self.folder / LOSSES_FILE)
        counts = dict(table.counts)
        dropped = Dropped.read(self.folder)
        for key, count in dropped.losses.items():
            counts[key] = counts.get(key, 0) + count
        return LossTotals(counts, table.unassigned + dropped.unassigned)

    def hold(self, first: Position, end: Position) -> None:
        """Keep the segments of [first, end) from being given up by a full journal, until the next call.

        The mark survives both processes. What lies before `first` is settled: a full journal deletes it, and counts no loss.
        Whoever plans to ship a range, or has shipped a part of a segment, calls this before it commits the plan. Raises
        `SegmentGivenUp` if the writer was faster: read from `first` on again.
        """
        self._under_way.hold(first.segment, end.segment)
        for segment in range(first.segment, end.segment + (end.byte > HEADER_BYTES)):
            path = self.folder / segment_name(segment)
            from_byte = first.byte if segment == first.segment else HEADER_BYTES
            if self._missing_from.get(segment, self.head.segment_bytes) <= from_byte:
                continue  # It was gone before the range was read.
            if segment in Dropped.read(self.folder).segments:
                self.close_segment()  # An open file outlives its name, and would be read again.
                raise SegmentGivenUp(
                    f"{path} was given up by its writer, for the journal was full: read it again from {first} on"
                )

    def found_missing(self, segment: int, byte: int) -> None:
        """Remember that a reading found nothing of the segment from this byte on: its writer had given it up."""
        self._missing_from[segment] = min(byte, self._missing_from.get(segment, byte))

    def sync(self, position: Position) -> None:
        """Return once everything before `position` in its segment is on the disk. Raises `JournalDamaged` if it cannot be."""
        try:
            self.open_segment(position.segment).sync()
        except FileNotFoundError:
            pass  # The place before a segment that is not made yet.
        except OSError as error:
            raise JournalDamaged(f"{self.folder} cannot be made durable: {error.strerror}") from None

    def release(self, position: Position) -> None:
        """Delete the segments before the position's: all of them is settled."""
        self._missing_from = {segment: byte for segment, byte in self._missing_from.items() if segment >= position.segment}
        for segment in self.segments():
            if segment < position.segment:
                (self.folder / segment_name(segment)).unlink(missing_ok=True)

    def lag_bytes(self, position: Position) -> int:
        """Return how many bytes follow `position`, to about a page."""
        lag = 0
        for segment in self.segments():
            if segment < position.segment:
                continue
            try:
                written = self.open_segment(segment).written_bytes()
            except FileNotFoundError:
                continue
            lag += max(0, written - (position.byte if segment == position.segment else HEADER_BYTES))
        return lag

    def remove(self) -> None:
        """Delete the journal. Its writer is dead or has closed it; raises `JournalLocked` while it lives. Twice is once."""
        if self.folder.exists() and self.is_alive:
            raise JournalLocked(f"{self.folder} is still written: it can be removed after its end")
        self.close_segment()
        try:
            names = sorted(os.listdir(self.folder), key=lambda name: name == HEAD_FILE)
        except FileNotFoundError:
            return
        # The head goes last: until then a reader that begins again finds a journal.
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        self.folder.rmdir()

    def open_segment(self, segment: int) -> SegmentReader:
        """Return the segment, open; only one stays open. Raises FileNotFoundError, `JournalDamaged`, `JournalTooNew`."""
        if self._reader is None or self._reader.segment != segment:
            self.close_segment()
            try:
                self._reader = SegmentReader(self.folder, self.head.id_bytes, segment)
            except FileNotFoundError:
                raise
            except OSError as error:
                path = self.folder / segment_name(segment)
                raise JournalDamaged(f"{path} cannot be opened: {error.strerror}") from None
        return self._reader

    def close_segment(self) -> None:
        """Close the open segment, if there is one."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _First(NamedTuple):
    """The first readable record behind a place."""

    number: int
    is_next: bool
    """Nothing is missing between the beginning of the next segment and this record."""


class _Walk:
    """One reading: where it stands, and what it has collected."""

    def __init__(
        self, journal: Journal, start: Position, most_bytes: int, until: Position | None, into: RecordSink, *, is_alive: bool
    ) -> None:
        self._journal = journal
        self._place = start
        self._left_bytes = max(1, most_bytes)
        self._until = until
        self._is_alive = is_alive
        self._last_ms: int | None = None
        self._into = into
        self._unreadable: list[Unreadable] = []

    def run(self) -> tuple[Position, list[Unreadable]]:
        while self._wants_more() and self._read_segment():
            pass
        return self._place, self._unreadable

    def _wants_more(self) -> bool:
        return self._left_bytes > 0 and (self._until is None or self._place[:2] < self._until[:2])

    def _read_segment(self, *, is_final: bool = False) -> bool:
        """Read on in the place's segment. Return whether the reading continues in another one."""
        is_final = is_final or not self._is_alive
        segment = self._place.segment
        dropped = Dropped.read(self._journal.folder).segments
        if segment in dropped:
            return self._pass_given_up(dropped)
        try:
            reader = self._journal.open_segment(segment)
        except FileNotFoundError:
            return self._pass_missing()
        self._take_plain(reader)
        if self._place.segment != segment:
            return True
        if not self._wants_more():
            return False
        pending: Gap | None = None
        for item in reader.records_from(self._place.byte, is_final=is_final):
            if isinstance(item, Gap):
                pending = item
                continue
            if pending is not None:
                self._skip(pending.end - pending.at, Position(segment, pending.end, item.number), item)
                pending = None
            if item.kind == Kind.END_OF_SEGMENT:
                self._place = Position(segment + 1, HEADER_BYTES, max(self._place.number, item.number))
                return True
            self._take(item)
            if self._place.segment != segment:
                return True
            if item.kind == Kind.END_OF_JOURNAL or not self._wants_more():
                return False
        return self._pass_end(reader, pending, is_final)

    def _take_plain(self, reader: SegmentReader) -> None:
        """Take what can be taken quickly: events one after another."""
        segment = self._place.segment
        until = self._journal.head.segment_bytes if self._until is None or self._until.segment > segment else self._until.byte
        while self._place.segment == segment and self._wants_more():
            run = reader.take_plain(self._place.byte, self._left_bytes, until, self._into)
            if not run.record_count:
                return
            self._left_bytes -= run.end - self._place.byte
            self._last_ms = run.last_ms
            self._place = self._behind(run.end, run.next_number)

    def _take(self, record: RawRecord) -> None:
        if record.is_end:
            self._place = Position(self._place.segment, record.end, max(self._place.number, record.number))
            return
        self._into.append(JournalRecord(Kind(record.kind), record.timestamp_ms, record.key, record.body))
        self._left_bytes -= RECORD_HEAD_BYTES + len(record.body)
        self._last_ms = record.timestamp_ms
        self._place = self._behind(record.end, record.number + 1)

    def _behind(self, end: int, next_number: int) -> Position:
        """Return the place behind an event. One may fill its segment to the last byte, where only the end of the journal is."""
        number = max(self._place.number, next_number)
        if end >= self._journal.head.segment_bytes:
            return Position(self._place.segment + 1, HEADER_BYTES, number)
        return Position(self._place.segment, end, number)

    def _pass_end(self, reader: SegmentReader, tail: Gap | None, is_final: bool) -> bool:
        """Nothing readable is left in the segment and it has no record that ends it. Return whether the reading continues."""
        segment, size, whole = self._place.segment, reader.size_bytes, self._journal.head.segment_bytes
        later = self._later_segments()
        is_cut = size < whole
        if is_cut and self._is_alive:
            raise JournalDamaged(
                f"{reader.path} was cut to {size} of {whole} bytes while its writer lives: it is lost, and he too"
            )
        first = self._first_record(later)
        if not is_final and whole - self._place.byte >= RECORD_HEAD_BYTES:
            if first is not None:
                # A record in a later segment: this one was ended before it, and only damage can hide its end.
                return self._read_segment(is_final=True)
            if self._place.byte == HEADER_BYTES:
                # A writer that was interrupted makes this segment again: look at the file of that name next time.
                self._journal.close_segment()
            return False
        after_power_cut = self._journal.head.writer.boot_id != boot_id()
        # An append that the writer's death cut short, or none: the caller never learned that this event was taken.
        is_sound = not is_cut and (tail is None or not after_power_cut)
        if later and is_sound and (first is None or (tail is None and whole - self._place.byte < RECORD_HEAD_BYTES)):
            self._place = Position(segment + 1, HEADER_BYTES, self._place.number)
            return True
        if later:
            unreadable = (0 if tail is None else tail.end - tail.at) + (whole - size)
            # Perhaps no record is missing: what is damaged may be the one that only ends the segment.
            following = Position(segment + 1, HEADER_BYTES, self._number_before(first, is_damaged=unreadable > 0))
            if unreadable or following.number > self._place.number:
                self._skip(unreadable, following, None, least=0)
            self._place = following
            return True
        if is_sound:
            self._place = self._place if tail is None else Position(segment, tail.end, self._place.number)
        else:
            end = Position(segment + 1, HEADER_BYTES, self._place.number + 1)
            self._skip((0 if tail is None else tail.end - tail.at) + (whole - size), end, None)
        return False

    def _pass_given_up(self, dropped: Collection[int]) -> bool:
        """The place's segment was given up, and counted by the writer: even if a kill left its file. The reading continues."""
        self._journal.found_missing(self._place.segment, self._place.byte)
        following = self._place.segment + 1
        while following in dropped:
            self._journal.found_missing(following, HEADER_BYTES)
            following += 1
        first = self._first_record([segment for segment in self._later_segments() if segment not in dropped])
        self._place = Position(following, HEADER_BYTES, self._place.number if first is None else first.number)
        return True

    def _pass_missing(self) -> bool:
        """The place's segment is not there. Return whether the reading continues."""
        segment, whole = self._place.segment, self._journal.head.segment_bytes
        later = self._later_segments()
        if later and self._is_there(segment):
            return True  # It was made between the two looks, and so was the one behind it.
        dropped = Dropped.read(self._journal.folder).segments
        if segment in dropped:
            return self._pass_given_up(dropped)  # between the two looks
        is_begun = self._place.byte > HEADER_BYTES
        if not later and not is_begun:
            return False  # Not made yet; or the journal ends here.
        if self._is_alive and not later:
            raise JournalDamaged(f"{self._journal.folder / segment_name(segment)} has vanished while its writer lives")
        end = Position(segment + 1, HEADER_BYTES, self._number_before(self._first_record(later), is_damaged=is_begun))
        self._skip(whole - self._place.byte, end, None, least=0)
        return True

    def _skip(self, byte_count: int, end: Position, following: RawRecord | None, *, least: int = 1) -> None:
        dated = following.timestamp_ms if following is not None and not following.is_end else self._last_ms
        records = max(least, end.number - self._place.number)
        timestamp_ms = self._journal.head.epoch if dated is None else dated
        self._unreadable.append(Unreadable(self._place, end, byte_count, records, timestamp_ms))
        self._place = end

    def _is_there(self, segment: int) -> bool:
        try:
            self._journal.open_segment(segment)
        except FileNotFoundError:
            return False
        return True

    def _later_segments(self) -> list[int]:
        return [segment for segment in self._journal.segments() if segment > self._place.segment]

    def _number_before(self, first: "_First | None", *, is_damaged: bool) -> int:
        """Return the number up to which what is missing before the next segment is counted."""
        if first is None:
            # Perhaps a segment that was just made. No number tells how many are missing, if any are.
            return self._place.number + is_damaged
        # If more is missing before that record, it is counted there, together with what is missing here.
        return max(self._place.number, first.number) if first.is_next else self._place.number

    def _first_record(self, segments: Sequence[int]) -> "_First | None":
        """Return the first readable record of these segments."""
        # Not so if one between was given up, or is missing.
        is_next = segments[:1] == [self._place.segment + 1]
        for segment in segments:
            try:
                reader = SegmentReader(self._journal.folder, self._journal.head.id_bytes, segment)
            except OSError:
                is_next = False
                continue
            try:
                for item in reader.records_from(HEADER_BYTES, is_final=not self._is_alive):
                    if isinstance(item, RawRecord):
                        return _First(item.number, is_next)
                    is_next = False
            finally:
                reader.close()
        return None
