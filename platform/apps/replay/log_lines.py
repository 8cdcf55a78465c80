"""Reads a log file as numbered lines: any size, bounded memory, plain or gzip. Knows nothing of what the lines mean."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ...errors import HeadraceError

LINE_LIMIT_BYTES = 64 * 1024
"""Apache's own limit for one request header is 8 KiB. A longer line than this is not a request; only its first bytes are
returned.
"""


class LogUnreadable(HeadraceError):
    """The file cannot be opened, or cannot be read further."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line with its line end; `number` counts from 1. Of a line that is too long, only its first bytes."""

    number: int
    content: bytes
    is_too_long: bool


class LogFile:
    """One log file that is being read. A context manager; `progress` returns how much has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._raw: IO[bytes] | None = None
        self._size_bytes = 0

    def __enter__(self) -> "LogFile":
        try:
            self._raw = self.path.open("rb")
            self._size_bytes = self.path.stat().st_size
        except OSError as error:
            raise LogUnreadable(f"{self.path} cannot be read: {error.strerror or error}: give a log file") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._raw is not None:
            self._raw.close()

    @property
    def progress(self) -> float:
        """Return the share of the file that has been read, 0 to 1; of a gzip file, of its compressed bytes. Read-ahead counts as
        read.
        """
        if self._raw is None or not self._size_bytes:
            return 1.0
        return min(1.0, self._raw.tell() / self._size_bytes)

    def lines(self) -> Iterator[LogLine]:
        """Yield every line, in order. Raises `LogUnreadable` where the file cannot be read further (a cut gzip file, say)."""
        assert self._raw is not None, "not opened"
        stream = gzip.GzipFile(fileobj=self._raw) if self.path.suffix == ".gz" else self._raw
        number = 0
        try:
            while content := stream.readline(LINE_LIMIT_BYTES + 1):
                number += 1
                is_too_long = len(content) > LINE_LIMIT_BYTES and not content.endswith(b"\n")
                if is_too_long:
                    content = content[:LINE_LIMIT_BYTES]
                    while (rest := stream.readline(LINE_LIMIT_BYTES)) and not rest.endswith(b"\n"):
                        pass
                yield LogLine(number, content, is_too_long)
        except (OSError, EOFError, zlib.error) as error:
            raise LogUnreadable(f"{self.path} cannot be read behind line {number}: {error}: is the file whole?") from error
