"""Whether a stretch of a file is in the page cache, so that reading it does not wait for a disk; and how it is brought there.

Asked before the loop reads or sends: cachestat(2) counts a stretch's pages without touching them (Linux 6.5; a system without it
is asked about both ends only), and a byte read with RWF_NOWAIT at its end tells pages that are there from pages still on their
way. Together 3 µs for 200 KB. A file system that cannot say counts as warm. Knows no log, no thread."""

import ctypes
import errno
import os

from ..event_loop.deferred_response import Slice

_CACHESTAT = 451
"""The call's number on every architecture but Alpha."""
_PAGE = os.sysconf("SC_PAGESIZE")
_libc = ctypes.PyDLL(None)  # keeps the GIL: the call waits for nothing, and giving up the GIL would cost more than it takes
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]


class PageCache:
    """Used on one thread, but for `bring`."""

    def __init__(self) -> None:
        self._range = (ctypes.c_uint64 * 2)()
        self._counts = (ctypes.c_uint64 * 5)()
        self._range_at, self._counts_at = ctypes.addressof(self._range), ctypes.addressof(self._counts)
        self._byte = [bytearray(1)]
        self._counts_pages = True

    def holds(self, stretch: Slice) -> bool:
        """Return whether reading `stretch` waits for no disk. Hot: once a fetch."""
        length = len(stretch)
        if length <= 0:
            return True
        fd, position = stretch.fd, stretch.position
        if not self._is_there(fd, position + length - 1):
            return False
        if self._counts_pages:
            first_page = position - position % _PAGE
            self._range[0], self._range[1] = first_page, position + length - first_page
            if _syscall(_CACHESTAT, fd, self._range_at, self._counts_at, 0) == 0:
                there: int = self._counts[0]
                return there * _PAGE >= position + length - first_page
            self._counts_pages = False
        return self._is_there(fd, position)

    def copy(self, stretch: Slice) -> bytes | None:
        """Return the bytes of `stretch`, None when reading them waits for a disk. Hot: once a small fetch.

        A fault is for the reading itself to find: it counts as waiting.
        """
        length = len(stretch)
        copied = bytearray(length)
        try:
            count = os.preadv(stretch.fd, (copied,), stretch.position, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                return None
            count = os.preadv(stretch.fd, (copied,), stretch.position)
        return bytes(copied) if count == length else None

    def _is_there(self, fd: int, position: int) -> bool:
        try:
            os.preadv(fd, self._byte, position, os.RWF_NOWAIT)
        except OSError as error:
            # EOPNOTSUPP: it cannot be known. Other faults are for the reading itself to find.
            return error.errno != errno.EAGAIN
        return True


def bring(file: Slice, position: int, length: int) -> None:
    """Read a part of the file that a slice is of into the page cache, as much of it as there is. Waits for the disk. Raises
    OSError.

    What is sent to the null device is read in long strides and copied nowhere: 0.04 CPU s/GB. `posix_fadvise` reads page by page
    and takes 0.5; reading into a buffer 0.2 and more.
    """
    end = position + length
    own = _opened_again(file.fd)
    try:
        sink = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            while position < end and (count := os.sendfile(sink, own, position, end - position)):
                position += count
        finally:
            os.close(sink)
    finally:
        os.close(own)


def _opened_again(fd: int) -> int:
    """Return a descriptor of the same file, deleted or not, that remembers reads of its own.

    The system reads ahead by what was read last through the same opening: where the loop sends from it and two threads bring what
    comes next, a reader that goes straight on looks like one who jumps about, and gets a third less.
    """
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # no /proc, or a file that may be opened no longer
        return os.dup(fd)
