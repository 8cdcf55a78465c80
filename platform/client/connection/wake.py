"""A pipe that interrupts another thread's wait for sockets. Any thread may set it; one thread waits for it and clears it."""

import os
import threading


class Wake:
    """Level-triggered: once set, the next wait ends at once, however often it was set.

    A closed descriptor's number is soon another file's or socket's, so that no thread may be about to use it then: the lock. It
    can be taken again by its own thread, for a signal handler may interrupt `set` and call it.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._is_set = False
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """Return the descriptor to wait on until it is readable; -1 when it is closed."""
        return self._read_end

    def set(self) -> None:
        if self._is_set:
            return
        with self._lock:
            if self._write_end < 0:
                return
            self._is_set = True
            try:
                os.write(self._write_end, b"\0")
            except BlockingIOError:
                pass  # the pipe is full, so the wait ends anyway

    def clear(self) -> None:
        """Forget earlier sets. Clear first and look for work afterwards; in the other order a set between the two is lost."""
        with self._lock:
            if self._read_end < 0:
                return
            try:
                os.read(self._read_end, 4096)
            except BlockingIOError:
                pass  # it was not set
            self._is_set = False

    def close(self) -> None:
        """Close both ends; a later `set`, `clear` or `close` does nothing."""
        with self._lock:
            self.let_go()

    def let_go(self) -> None:
        """Close both ends in the child of a fork, where a thread that is no more may have held the lock."""
        ends, self._read_end, self._write_end = (self._read_end, self._write_end), -1, -1
        for end in ends:
            if end >= 0:
                os.close(end)
