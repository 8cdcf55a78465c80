"""One file as a source: read from a position on, by its open descriptor, whatever its name is meanwhile. Nothing is remembered
but what the group's looks found. A position says all that is needed to read the same records again.
"""

import zlib
from collections.abc import Mapping
from typing import Protocol

from ..errors import SourceUnreadable
from ..source import AuditRun, Chunk, Lag, Position
from .content import OpenContent, is_compressed, open_content
from .framing import NUL, Framed, frame
from .head import MOST_BYTES, NOTHING, Head, head_of
from .line_encoder import Encoded, LinesAt
from .multiline import join
from .position import IGNORED, Place, holds
from .section import Section


class FileOwner(Protocol):
    """Receives what happens to a file."""

    def cut(self, file: "TailedFile") -> None:
        """Its content was replaced in place."""

    def forget(self, file: "TailedFile") -> None:
        """It has ended, and everything is settled."""


class TailedFile:
    """The content of one file, under all the names and in all the forms it has."""

    def __init__(self, section: Section, owner: FileOwner, name: str, path: str, start: Place) -> None:
        """`path`: where it is now. `start`: where reading begins, of a file that the agent knows: where it is settled."""
        self.name = name
        self.file_id = name.rpartition("#")[2]
        self._section = section
        self._owner = owner
        self.path = path
        self.first_path = start.path
        self.key = (start.device, start.inode)
        self.head = Head(start.head_bytes, start.head_crc)
        self.start = start.to_position()
        self.place = start
        """The furthest place that was read."""
        self.size = 0
        self.mtime_ns = 0
        self.changed_ms = section.clock.monotonic_ms()
        """When it was last seen to grow (a monotonic reading)."""
        self.unread_since_ms: int | None = None
        """The wall clock when something to read was first seen behind what had been read."""
        self.gone_since_ms: int | None = None
        """When its last name was found missing (a monotonic reading)."""
        self.is_cut = False
        """Its content was replaced in place: nothing more can be read, unless a copy is found."""
        self.is_rotated = path != start.path
        """It has apparently been rotated: it will not grow for long."""
        self.is_announced = False
        """The agent knows it."""
        self.is_drained = False
        """The last read came to the end."""
        self._last = self._parsed = (self.start, start)

    @property
    def topic(self) -> str:
        return self._section.topic

    @property
    def schema(self) -> str:
        return self._section.encoder.schema

    @property
    def run(self) -> AuditRun:
        return self._section.run

    @property
    def is_compressed(self) -> bool:
        return is_compressed(self.path)

    def read(self, position: Position, most_bytes: int) -> Chunk | None:
        """Return the next records; None if there is nothing new, or nothing can be read any more. Raises SourceUnreadable."""
        try:
            return self._read(place := self._place(position), most_bytes)
        except SourceUnreadable as error:
            if not self._section.is_damaged(self):
                raise
            self._section.note("damaged", self.path, reason=str(error), read_bytes=place.offset)
            self.is_drained = True  # until it changes
            return self._moved(place)

    def _read(self, place: Place, most_bytes: int) -> Chunk | None:
        if place.offset > self.place.offset:
            self.place = place  # planned by an earlier agent
        if place.offset >= IGNORED:
            return None
        content = None if self.is_cut else self._content()
        if content is None:
            self.is_drained |= self.is_left  # else it has moved, and the next look finds it
            return None
        for length in (most_bytes, max(most_bytes, self._section.longest_record_bytes)):
            block = content.read(place.offset, length)
            if content.failure is not None and not self._section.is_damaged(self):
                raise content.failure
            is_at_end = len(block) < length and content.failure is None
            if not self._is_still_the_file(content, place):
                return None
            takes_rest = is_at_end and self._is_whole(content)
            framed = frame(
                block,
                limit_bytes=self._section.line_limit_bytes,
                is_inside_long_line=place.is_inside_long_line,
                takes_rest=takes_rest,
            )
            chunk = self._chunk(place, block, framed, takes_last=takes_rest or (is_at_end and self._is_quiet()))
            if chunk is not None or is_at_end:
                break
        if chunk is None and content.failure is not None:
            raise content.failure
        self.is_drained = is_at_end and not block.strip(NUL)
        return self._moved(place) if chunk is None else chunk

    def read_again(self, start: Position, end: Position) -> Chunk:
        """Return the range of an earlier chunk; no records where its bytes turn up nowhere any more. Raises SourceUnreadable
        while they may.
        """
        place, to = Place.from_position(start), Place.from_position(end)
        content = None if self.is_cut else self._content()
        block = b"" if content is None else content.read(place.offset, to.offset - place.offset)
        crc = zlib.crc32(block, place.content_crc)
        if len(block) != to.offset - place.offset or crc != to.content_crc:
            if self.is_given_up:
                return Chunk(end=end)
            if content is not None:
                self.cut()
            raise SourceUnreadable(f"{self.path} does not hold the bytes from {place.offset} any more: a copy is waited for")
        framed = frame(
            block,
            limit_bytes=self._section.line_limit_bytes,
            is_inside_long_line=place.is_inside_long_line,
            takes_rest=not to.is_inside_long_line,
        )
        again = self._encoded(place, framed, to.at_ms, takes_last=True)[0]
        return Chunk(end=end, records=again.records, quarantined=again.quarantined)

    def hold(self, start: Position, end: Position) -> None:
        """Nothing: the file is not ours to keep. What is gone before it is acknowledged is read as far as it is there."""

    def losses(self) -> Mapping[tuple[int, str], int]:
        return {}  # what a truncation takes along was never seen

    def is_ended(self, position: Position) -> bool:
        """Return whether the file is gone, read to its end, and no compressed copy has appeared in time."""
        return self.is_drained and self._place(position).offset >= self.place.offset and self.is_given_up

    @property
    def is_given_up(self) -> bool:
        """Return whether its content was looked for elsewhere, long enough."""
        since_ms = self.changed_ms if self.gone_since_ms is None else self.gone_since_ms
        return self.is_left and self._section.clock.monotonic_ms() - since_ms >= self._section.gone_wait_ms

    def lacks_tail(self, position: Position) -> bool:
        """No: what a power cut took from a file was never read."""
        return False

    def announced(self) -> None:
        """Nothing to note."""

    def lag(self, position: Position) -> Lag:
        """Return the bytes behind a position; of a compressed file it is unknown how many: its size until it is read."""
        place = self._place(position)
        if place.offset >= IGNORED or self.is_cut:
            return Lag(0, None)
        left = (0 if self.is_drained else self.size) if self.is_compressed else max(0, self.size - place.offset)
        return Lag(left, self.unread_since_ms if left else None)

    def release(self, position: Position) -> None:
        """Nothing: the agent keeps the position, and the file is not ours to delete."""

    def remove(self) -> None:
        self.close()
        self._owner.forget(self)

    def close(self) -> None:
        self._section.open_files.close(self)

    def is_behind(self) -> bool:
        """Return whether there may be something to read."""
        if self.is_cut or self.place.offset >= IGNORED:
            return False
        if self.is_compressed:
            return not self.is_drained or (self.place.device, self.place.inode) != self.key
        return self.size > self.place.offset or (self.place.device, self.place.inode) != self.key

    def announce(self) -> None:
        """Set where reading begins, with the fingerprint of what is there."""
        self.place = self.place._replace(head_bytes=self.head.length, head_crc=self.head.crc)
        self.start = self.place.to_position()
        self._last = (self.start, self.place)
        self.is_announced = True

    def attach(self, path: str, key: tuple[int, int]) -> None:
        """Go on with a copy of the content: compressed, or made before the original was truncated."""
        self.close()
        self.path, self.key = path, key
        self.head = NOTHING  # taken again; where nothing was read it may be that of another file with our old inode
        self.gone_since_ms = None
        self.is_cut = self.is_drained = False
        self.unread_since_ms = self._section.clock.now_ms()
        self._section.note("copies_matched", path, of=self.first_path)

    def cut(self) -> None:
        """Take note that the content was replaced in place."""
        unread = 0 if self.is_compressed else max(0, self.size - self.place.offset)
        self._section.note("truncated", self.path, read_bytes=self.place.offset)
        if unread:
            self._section.events["unread_bytes_truncated"] += unread
        self.close()
        self.is_cut = self.is_drained = True
        self.changed_ms = self._section.clock.monotonic_ms()
        self._owner.cut(self)

    def _place(self, position: Position) -> Place:
        if position == self._last[0]:
            return self._last[1]
        if position != self._parsed[0]:
            self._parsed = position, Place.from_position(position)
        return self._parsed[1]

    def _content(self) -> OpenContent | None:
        """Return the open file; None if its name leads to another file now, or to none."""
        content = self._section.open_files.of(self)
        if content is not None:
            return content
        try:
            content = self._section.open_files.open(self, lambda: open_content(self.path))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._section.note("not_readable", self.path, reason=str(error))
            raise SourceUnreadable(f"{self.path} cannot be opened: {error.strerror or error}") from error
        found = content.stat()
        if (found.st_dev, found.st_ino) != self.key:
            self._section.open_files.close(self)
            return None
        if content.is_whole and not self._begins_as_known(content):
            self.cut()
            return None
        return content

    def may_be_at(self, path: str, *, is_asked_for: bool) -> bool:
        """Return whether it can be what has its inode and this name: a plain file is never compressed in place. One that an
        earlier agent knew may have moved to its compressed copy; where little was read the content tells it cheaply.
        `is_asked_for`: a pattern matches the name.
        """
        if is_compressed(path) != self.is_compressed:
            return not self.is_compressed and not self.mtime_ns and self.place.offset > MOST_BYTES
        if path == self.path or (is_asked_for and not self.is_compressed):
            return True
        # A closed one without content has nothing to be reported by: its inode may be another file's by now.
        return self.head != NOTHING or bool(self.place.offset) or self._section.open_files.of(self) is not None

    def _begins_as_known(self, content: OpenContent) -> bool:
        """Return whether a compressed file that was just opened is this one's: its inode may have been another file's before."""
        try:
            first = content.read(0, MOST_BYTES)
            if content.failure is not None:
                raise content.failure
        except SourceUnreadable:
            is_damaged = self._section.is_damaged(self)
            self.close()  # the next open looks again
            if is_damaged:
                return False
            raise
        if not holds(first, self.head, self.place):
            return False
        self.head = head_of(first)
        return True

    def _is_still_the_file(self, content: OpenContent, place: Place) -> bool:
        """Return whether what was just read is this file's content. A truncation cannot be undone: one check behind the read."""
        if content.is_whole:
            return True
        found = content.stat()
        first = content.read(0, MOST_BYTES)
        if found.st_size < place.offset or not holds(first, self.head, place):
            self.cut()
            return False
        if (found.st_size, found.st_mtime_ns) != (self.size, self.mtime_ns):
            self.grew(found.st_size, found.st_mtime_ns)
        if self.head.length < MOST_BYTES:
            self.head = head_of(first)
        return True

    @property
    def is_left(self) -> bool:
        """Return whether the content is to be looked for elsewhere: its file is gone, or holds something else."""
        return self.is_cut or self.gone_since_ms is not None

    def refresh_head(self) -> None:
        """Take the fingerprint of a file that is young, or was not read yet. Another one's content is found out."""
        if self.is_compressed and not self.is_cut:
            self._content()  # takes it with the first look into the file
        elif not self.is_cut and (first := self.first_bytes()) is not None:
            if not holds(first, self.head, self.place):
                self.cut()
            elif self.head.length < MOST_BYTES:
                self.head = head_of(first)

    def first_bytes(self) -> bytes | None:
        """Return what the file begins with; None if its name leads elsewhere. Raises SourceUnreadable."""
        content = self._content()
        return None if content is None else content.read(0, MOST_BYTES)

    def has_its_head(self) -> bool:
        """Return whether the file begins as it did. Raises SourceUnreadable."""
        first = self.first_bytes()
        return first is None or holds(first, self.head, self.place)

    def grew(self, size: int, mtime_ns: int) -> None:
        """Take note of the file's size (bytes) and time."""
        self.size, self.mtime_ns = size, mtime_ns
        self.changed_ms = self._section.clock.monotonic_ms()
        if self.unread_since_ms is None and size > self.place.offset:
            self.unread_since_ms = self._section.clock.now_ms()

    def _is_whole(self, content: OpenContent) -> bool:
        """Return whether the file will not grow any more."""
        if content.is_whole:
            return True
        if not self.is_rotated and self.gone_since_ms is None:
            return False
        # A folder that is listed while names change may lack one: it is back the next time.
        since_ms = max(self.changed_ms, self.gone_since_ms or 0)
        return self._section.clock.monotonic_ms() - since_ms >= self._section.rest_wait_ms

    def _is_quiet(self) -> bool:
        rule = self._section.multiline
        return rule is not None and self._section.clock.monotonic_ms() - self.changed_ms >= rule.timeout_ms

    def _chunk(self, place: Place, block: bytes, framed: Framed, *, takes_last: bool) -> Chunk | None:
        """Return the lines of a block as a chunk; None if it holds no whole line and nothing else that is done with."""
        if not framed.lines and framed.hole_bytes == len(block):
            return None  # NULs up to the end: a writer may yet put something there
        at_ms = self._section.clock.now_ms()
        encoded, line_count, left_out = self._encoded(place, framed, at_ms, takes_last=takes_last)
        consumed = framed.consumed - left_out
        if not consumed:
            return None
        self._section.events["hole_bytes"] += framed.hole_bytes
        self._section.events["lines_too_long"] += len(framed.too_long)
        end = place._replace(
            device=self.key[0],
            inode=self.key[1],
            head_bytes=self.head.length,
            head_crc=self.head.crc,
            offset=place.offset + consumed,
            line=None if place.line is None else place.line + line_count,
            content_crc=zlib.crc32(memoryview(block)[:consumed], place.content_crc),
            previous_ms=encoded.previous_ms,
            at_ms=at_ms,
            is_inside_long_line=framed.is_inside_long_line and not left_out,
        )
        return Chunk(end=self._reached(end), records=encoded.records, quarantined=encoded.quarantined)

    def _encoded(self, place: Place, framed: Framed, at_ms: int, *, takes_last: bool) -> tuple[Encoded, int, int]:
        """Return what the lines are, how many are taken, and how many bytes at the end are left out."""
        lines, too_long, lengths, left_out = framed.lines, framed.too_long, [1] * 0, 0
        rule = self._section.multiline
        line_count = len(lines)
        if rule is not None and lines:
            joined, line_count = join(lines, rule, alone=too_long, takes_last=takes_last)
            left_out = sum(len(line) + 1 for line in lines[line_count:])
            too_long = frozenset(index for index, one in enumerate(joined) if one.first in too_long)
            lengths = [one.behind - one.first for one in joined]
            lines = [b"\n".join(lines[one.first : one.behind]) for one in joined]
        at = LinesAt(
            path=self.first_path,
            file_id=self.file_id,
            offset=place.offset + framed.first_offset,
            line=None if place.line is None else place.line,
            previous_ms=place.previous_ms,
            at_ms=at_ms,
        )
        return self._section.encoder.encode(lines, too_long, lengths, at), line_count, left_out

    def _moved(self, place: Place) -> Chunk | None:
        """Return a chunk without records where the content is in another file now: the agent keeps its position, with its key."""
        if (place.device, place.inode) == self.key:
            return None
        end = place._replace(device=self.key[0], inode=self.key[1], head_bytes=self.head.length, head_crc=self.head.crc)
        return Chunk(end=self._reached(end))

    def _reached(self, place: Place) -> Position:
        position = place.to_position()
        self._last = (position, place)
        if place.offset >= self.place.offset:
            self.place = place
        if self.size <= place.offset:
            self.unread_since_ms = None
        return position
