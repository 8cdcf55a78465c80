"""An open segment file, and a region of it that is sent to a socket.

An `OpenFile` closes its descriptor when its last holder drops it. Holders are the segment and each region that is still being
sent. So retention may delete a segment while its bytes are being sent, and a sender that fails leaks nothing.
"""

import os
from pathlib import Path


class OpenFile:
    """A descriptor that is closed when its last holder drops it."""

    __slots__ = ("fd",)

    def __init__(self, path: Path, flags: int) -> None:
        """Open `path`; raises OSError."""
        self.fd = -1
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self, close=os.close) -> None:  # type: ignore[no-untyped-def]  # bound now: `os` may be gone at interpreter exit
        if self.fd >= 0:
            close(self.fd)


class FileRegion:
    """`len(region)` bytes of `fd` from byte `position`, for sendfile. `fd` stays open as long as the region is held."""

    __slots__ = ("_file", "_length", "fd", "position")

    def __init__(self, file: OpenFile, position: int, length: int) -> None:
        self._file = file
        self.fd = file.fd
        self.position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    @property
    def length(self) -> int:
        return self._length

    def read(self) -> bytes:
        """Return the bytes, for callers without sendfile. Raises OSError."""
        return os.pread(self.fd, self._length, self.position)

    def __repr__(self) -> str:
        return f"FileRegion(fd={self.fd}, position={self.position}, length={self._length})"
