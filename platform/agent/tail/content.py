"""The bytes of a file: plain, or compressed by gzip, bzip2 or xz. Knows nothing of lines."""

import bz2
import gzip
import lzma
import os
import zlib
from pathlib import Path
from typing import Protocol

from ..errors import SourceUnreadable

COMPRESSED = (".gz", ".bz2", ".xz")
PIECE_BYTES = 1 << 16


def is_compressed(path: str) -> bool:
    return path.endswith(COMPRESSED)


class Content(Protocol):
    """An open file. `read` raises SourceUnreadable where nothing can be read."""

    @property
    def failure(self) -> SourceUnreadable | None:
        """Return why the last `read` came to less than was asked for; None if that was the file's end."""

    @property
    def is_whole(self) -> bool:
        """Return whether it cannot grow: a compressed file."""

    def read(self, offset: int, most_bytes: int) -> bytes:
        """Return at most so many bytes of content from `offset` on; nothing at its end."""

    def stat(self) -> os.stat_result: ...

    def close(self) -> None: ...


class PlainContent:
    """A file that is read as it is, through one open descriptor: it stays the same file when its name goes to another one."""

    is_whole = False
    failure: SourceUnreadable | None = None

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        # O_NONBLOCK: a named pipe in the folder must not stop the agent.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)

    def read(self, offset: int, most_bytes: int) -> bytes:
        try:
            return os.pread(self._descriptor, most_bytes, offset)
        except OSError as error:
            raise SourceUnreadable(f"byte {offset} cannot be read: {error.strerror}") from error

    def stat(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class CompressedContent:
    """A compressed file. Reading on is cheap, going back begins at the file's start."""

    is_whole = True

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._path = path
        self.failure: SourceUnreadable | None = None
        self._raw = Path(path).open("rb")  # noqa: SIM115 - `close` closes it
        self._stream = self._opened()
        self._offset = 0

    def read(self, offset: int, most_bytes: int) -> bytes:
        self.failure = None
        parts: list[bytes] = []
        try:
            if offset < self._offset:
                self._raw.seek(0)
                self._stream, self._offset = self._opened(), 0
            while self._offset < offset:
                skipped = len(self._stream.read1(min(PIECE_BYTES, offset - self._offset)))
                if not skipped:
                    return b""
                self._offset += skipped
            # In pieces: what is before the place where the file is cut is not lost.
            left = most_bytes
            while left and (part := self._stream.read1(min(PIECE_BYTES, left))):
                parts.append(part)
                left -= len(part)
            self._offset += most_bytes - left
        except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
            behind = offset + sum(map(len, parts)) if parts else min(offset, self._offset)
            # Whatever stream is left is of no use: begin again next time.
            self._offset = 1 << 62
            self.failure = SourceUnreadable(
                f"{self._path} cannot be decompressed behind byte {behind}: {error}: is it still being written, or cut?"
            )
            if not parts:
                raise self.failure from error
        return b"".join(parts)

    def stat(self) -> os.stat_result:
        return os.fstat(self._raw.fileno())

    def close(self) -> None:
        self._raw.close()

    def _opened(self) -> bz2.BZ2File | lzma.LZMAFile | gzip.GzipFile:
        if self._path.endswith(".bz2"):
            return bz2.BZ2File(self._raw)
        if self._path.endswith(".xz"):
            return lzma.LZMAFile(self._raw)
        return gzip.GzipFile(fileobj=self._raw)


OpenContent = PlainContent | CompressedContent


def open_content(path: str) -> OpenContent:
    """Raises OSError."""
    return CompressedContent(path) if is_compressed(path) else PlainContent(path)


def ends_a_line(path: str, offset: int) -> bool:
    """Return whether a newline is before `offset`. Raises OSError and SourceUnreadable."""
    content = open_content(path)
    try:
        return content.read(offset - 1, 1) == b"\n"
    finally:
        content.close()
