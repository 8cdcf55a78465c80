"""fdatasync(2) without a thread of ours: the kernel runs it on one of its own (Linux AIO) and tells by eventfd that it ended.

Why: to a thread of ours and back are two wake-ups and two turns at the interpreter's lock. Of a small flush, 144 µs in itself,
they make 232; this makes 161. Lives on the loop thread. Bounded: so many are under way at most, and who finds no place is told.
"""

import ctypes
import os
import select
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..runtime.logs import get_logger
from .log import FlushJob
from .loop import Loop

log = get_logger(__name__)

STOP_S = 10
"""How long a stop waits for what is under way."""
_FDSYNC, _TELL_EVENTFD = 3, 1


class _Calls(NamedTuple):
    """Numbers of the system calls, for which the C library has no functions."""

    setup: int
    destroy: int
    submit: int
    get_events: int


_CALLS: Mapping[str, _Calls] = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _Calls(0, 1, 2, 4)}


class _Request(ctypes.Structure):
    """`struct iocb` of linux/aio_abi.h, little-endian."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """`struct io_event`."""

    _fields_ = (("data", ctypes.c_uint64), ("request", ctypes.c_uint64), ("result", ctypes.c_int64), ("result2", ctypes.c_int64))


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


Ended = Callable[[OSError | None], None]
"""Called on the loop with why the flush failed, None when all is on disk."""


class KernelFlush:
    """Flushes of single files."""

    def __init__(self, loop: Loop, places: int) -> None:
        """Raises OSError where the system has no such thing."""
        calls = _CALLS.get(os.uname().machine)
        if calls is None:
            raise OSError(0, f"no Linux AIO known for {os.uname().machine}")
        self._calls = calls
        # Keeps the GIL: no call here waits.
        self._syscall = ctypes.PyDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._context = ctypes.c_ulong(0)
        self._events = (_Event * places)()
        self._no_wait = _Time(0, 0)
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._call(calls.setup, ctypes.c_uint(places), ctypes.byref(self._context))
        except OSError:
            os.close(self._eventfd)
            raise
        self._request = _Request(opcode=_FDSYNC, flags=_TELL_EVENTFD, eventfd=self._eventfd)
        self._requests = (ctypes.POINTER(_Request) * 1)(ctypes.pointer(self._request))
        self._free = list(range(places))
        self._under_way: dict[int, tuple[FlushJob, Ended]] = {}
        loop.register(self._eventfd, select.EPOLLIN, self._reap)

    def submit(self, job: FlushJob, ended: Ended) -> bool:
        """Have `job` run, then `ended` called. Return False when it is not for here: more than one file, or all places taken."""
        fd = job.only_fd
        if fd is None or not self._free:
            return False
        place = self._free[-1]
        self._request.data, self._request.fd = place, fd
        try:
            self._call(self._calls.submit, self._context, ctypes.c_long(1), self._requests)
        except OSError:  # the file system knows no such request
            return False
        self._free.pop()
        self._under_way[place] = job, ended
        return True

    def stop(self) -> None:
        """Wait for what is under way, within a bound; nobody is told any more. After the loop has ended."""
        ended, deadline = select.poll(), time.monotonic() + STOP_S
        ended.register(self._eventfd, select.POLLIN)
        while self._under_way and (left_s := deadline - time.monotonic()) > 0:
            if ended.poll(left_s * 1000):
                self._take()
        if self._under_way:
            log.warning("flush_stuck", waiting=len(self._under_way))
        else:
            self._call(self._calls.destroy, self._context)  # would wait for them
        os.close(self._eventfd)

    def _reap(self, _: int) -> None:
        for ended, error in self._take():
            ended(error)

    def _take(self) -> list[tuple[Ended, OSError | None]]:
        """Return what has ended; a failure is marked in the log's folder."""
        os.eventfd_read(self._eventfd)
        places, events = ctypes.c_long(len(self._events)), ctypes.byref(self._events)
        count = self._call(self._calls.get_events, self._context, ctypes.c_long(0), places, events, ctypes.byref(self._no_wait))
        taken: list[tuple[Ended, OSError | None]] = []
        for event in self._events[:count]:
            job, ended = self._under_way.pop(event.data)
            self._free.append(event.data)
            error = OSError(-event.result, os.strerror(-event.result)) if event.result else None
            if error is not None:
                job.mark_failed()
            taken.append((ended, error))
        return taken

    def _call(self, *words: object) -> int:
        result: int = self._syscall(*words)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def kernel_flush(loop: Loop, places: int) -> KernelFlush | None:
    """Return what has the kernel flush, None where it cannot: threads of ours do it then, a little slower."""
    try:
        return KernelFlush(loop, places)
    except OSError as error:
        log.info("no_kernel_flush", why=str(error))
        return None
