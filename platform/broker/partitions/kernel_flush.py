"""fdatasync(2) without a thread of ours: the kernel runs it on one of its threads (Linux AIO) and signals its end by eventfd.

Why: to a thread of ours and back are two wake-ups and two turns at the interpreter's lock. Of a small flush, 144 µs in itself,
they make 232; this makes 161. Lives on the loop thread. Bounded: so many are under way at most. What the kernel does not take
goes to another `Flusher`: a flush of several files or of a folder, one that finds no place, a file system without AIO.
"""

import ctypes
import os
import select
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ...runtime.logs import get_logger
from ..event_loop.loop import Loop, monotonic_ms
from ..log import FlushJob
from .flusher import Flusher

log = get_logger(__name__)

STOP_MS = 10_000
"""How long a stop waits for flushes that are under way."""
_FDSYNC, _SIGNAL_EVENTFD = 3, 1
_REQUEST = struct.Struct("<QIIHhIQQqQII")
"""`struct iocb` of linux/aio_abi.h: data, -, -, what to do, -, descriptor, -, -, -, -, flags, eventfd."""
_EVENT = struct.Struct("<QQqq")
"""`struct io_event`: data, -, 0 or minus the error's number, -."""
_NO_TIME = bytes(16)
"""`struct timespec`."""


class _Calls(NamedTuple):
    """Numbers of the system calls. The C library has no functions for them."""

    setup: int
    destroy: int
    submit: int
    get_events: int


_CALLS: Mapping[str, _Calls] = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _Calls(0, 1, 2, 4)}


class KernelFlush:
    """A `Flusher` that has the kernel flush single files."""

    def __init__(self, loop: Loop, slots: int, otherwise: Flusher) -> None:
        """`otherwise` carries out what the kernel does not take. Raises OSError where the system has no such thing."""
        calls = _CALLS.get(os.uname().machine)
        if calls is None:
            raise OSError(0, f"no Linux AIO known for {os.uname().machine}")
        self._calls = calls
        # PyDLL keeps the GIL: no call here waits.
        self._syscall = ctypes.PyDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._context = ctypes.c_ulong(0)
        try:
            self._call(calls.setup, ctypes.c_uint(slots), ctypes.byref(self._context))
        except OSError:
            os.close(self._eventfd)
            raise
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = ctypes.c_void_p(ctypes.addressof(self._request))
        self._events = ctypes.create_string_buffer(slots * _EVENT.size)
        self._slots = ctypes.c_long(slots)
        self.most_at_once = slots
        self._otherwise = otherwise
        self._free = list(range(slots))
        self._under_way: dict[int, tuple[FlushJob, Callable[[Any], None], Callable[[Exception], None]]] = {}
        loop.register(self._eventfd, select.EPOLLIN, self._reap)

    def start(self) -> None:
        self._otherwise.start()

    def flush(self, job: FlushJob, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        return self._submit(job, done, failed) or self._otherwise.flush(job, done, failed)

    def _submit(self, job: FlushJob, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        """Return whether the kernel has taken the job."""
        fd = job.work.only_fd
        if fd is None or not self._free:
            return False
        slot = self._free[-1]
        _REQUEST.pack_into(self._request, 0, slot, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _SIGNAL_EVENTFD, self._eventfd)
        try:
            self._call(self._calls.submit, self._context, ctypes.c_long(1), ctypes.byref(self._requests))
        except OSError:  # the file system does not support the request
            return False
        self._free.pop()
        self._under_way[slot] = job, done, failed
        return True

    def stop(self) -> None:
        ended, deadline_ms = select.poll(), monotonic_ms() + STOP_MS
        ended.register(self._eventfd, select.POLLIN)
        while self._under_way and (left_ms := deadline_ms - monotonic_ms()) > 0:
            if ended.poll(left_ms):
                self._take()
        if self._under_way:
            log.warning("flush_stuck", waiting=len(self._under_way))
        else:
            self._call(self._calls.destroy, self._context)  # with flushes under way it would wait for them without a bound
        os.close(self._eventfd)
        self._otherwise.stop()

    def _reap(self, _: int) -> None:
        for callback in self._take():
            callback()

    def _take(self) -> list[Callable[[], None]]:
        """Return the callbacks of the flushes that have ended. A failure is marked in the log's folder first."""
        os.eventfd_read(self._eventfd)
        count = self._call(self._calls.get_events, self._context, ctypes.c_long(0), self._slots, self._events, _NO_TIME)
        callbacks: list[Callable[[], None]] = []
        for at in range(count):
            slot, _, result, _ = _EVENT.unpack_from(self._events, at * _EVENT.size)
            job, done, failed = self._under_way.pop(slot)
            self._free.append(slot)
            if result == 0:
                callbacks.append(partial(done, None))
            else:
                job.work.mark_failed()
                callbacks.append(partial(failed, OSError(-result, os.strerror(-result))))
        return callbacks

    def _call(self, *words: object) -> int:
        result: int = self._syscall(*words)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
