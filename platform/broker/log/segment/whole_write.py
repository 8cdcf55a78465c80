"""Write a whole buffer. One pwrite may write only a part of it; the next one then reports why."""

import os


def write_all(fd: int, data: memoryview, position: int) -> None:
    """Write all of `data` at `position`, in several calls if needed. Raises OSError when the file takes no more."""
    while data:
        count = os.pwrite(fd, data, position)
        if count == 0:
            raise OSError(0, "the file takes no more bytes")
        data = data[count:]
        position += count
