"""Writing all of a buffer: the system may take a part of it at a time, and says only then why it takes no more."""

import os


def write_all(fd: int, data: memoryview, position: int) -> None:
    """Write `data` at `position`, in as many goes as it takes. Raises OSError when the file takes no more."""
    while data:
        count = os.pwrite(fd, data, position)
        if count == 0:
            raise OSError(0, "the file takes no more bytes")
        data = data[count:]
        position += count
