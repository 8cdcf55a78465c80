"""An open segment file, and a stretch of it on its way to a socket.

Who closes: nobody by hand. An `OpenFile` closes its descriptor when the last one who holds it lets go: the segment, and each
slice that is still being sent. So retention may delete a segment while its bytes are on their way, and a sender that dies with
its slices leaks nothing.
"""

import os
from pathlib import Path


class OpenFile:
    """A descriptor that closes with its last holder."""

    __slots__ = ("fd",)

    def __init__(self, path: Path, flags: int) -> None:
        """Open `path`; raises OSError."""
        self.fd = -1
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self, close=os.close) -> None:  # type: ignore[no-untyped-def]  # bound now: `os` may be gone at interpreter exit
        if self.fd >= 0:
            close(self.fd)


class FileSlice:
    """`len(slice)` bytes of `fd` from byte `position`: whole batches, for sendfile. `fd` is good as long as the slice is held."""

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
        """Return the bytes themselves, for who cannot sendfile. Raises OSError."""
        return os.pread(self.fd, self._length, self.position)

    def __repr__(self) -> str:
        return f"FileSlice(fd={self.fd}, position={self.position}, length={self._length})"
