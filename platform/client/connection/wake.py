"""A pipe that interrupts another thread's wait for sockets. Any thread may set it; one thread waits for it and clears it."""

import os


class Wake:
    """Level-triggered: once set, the next wait ends at once, however often it was set."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._is_set = False

    def fileno(self) -> int:
        """Return the descriptor to wait on until it is readable."""
        return self._read_end

    def set(self) -> None:
        if self._is_set:
            return
        self._is_set = True
        try:
            os.write(self._write_end, b"\0")
        except OSError:
            # The pipe is full, so the wait ends anyway; or it is closed, so no thread waits.
            pass

    def clear(self) -> None:
        """Forget earlier sets. Clear first and look for work afterwards; in the other order a set between the two is lost."""
        try:
            os.read(self._read_end, 4096)
        except OSError:
            pass
        self._is_set = False

    def close(self) -> None:
        """Close both ends; a later `set` does nothing."""
        self._is_set = True
        os.close(self._read_end)
        os.close(self._write_end)
