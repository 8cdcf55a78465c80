"""What tests of flushes share: small logs with something to flush, a loop that turns until flushes end, disks that fail."""

import errno
import os
from collections.abc import Sized
from pathlib import Path

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.log import FlushJob, PartitionLog
from headrace.broker.partitions import kernel_flush
from headrace.broker.partitions.kernel_flush import KernelFlush
from tests.support.processes import eventually
from tests.support.small_logs import NOW_MS, batch, open_log


def opened(folder: Path) -> PartitionLog:
    """Return a log with one batch, which is on disk."""
    log = open_log(folder)
    log.append(batch(b"first"), NOW_MS)
    log.flush()
    return log


def flush_of(log: PartitionLog) -> FlushJob:
    """Append one batch; return the job that puts it on disk."""
    log.append(batch(b"more"), NOW_MS)
    return job_of(log)


def job_of(log: PartitionLog) -> FlushJob:
    job = log.flush_job()
    assert job is not None
    return job


def until(loop: Loop, ended: Sized, count: int) -> None:
    """Turn the loop until so many flushes have ended."""

    def enough() -> bool:
        loop._turn(loop._poller.poll(0, 512))
        return len(ended) == count

    eventually(enough, what=f"{count} flushes ended", every_ms=1)


def fail_in_kernel(kernel: KernelFlush, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk fail: the kernel's answer to every flush becomes EIO."""
    real = kernel._syscall

    def call(number: int, *words: object) -> int:
        result: int = real(number, *words)
        if number == kernel._calls.get_events:
            for at in range(result):
                place, request, _, more = kernel_flush._EVENT.unpack_from(kernel._events, at * kernel_flush._EVENT.size)
                kernel_flush._EVENT.pack_into(kernel._events, at * kernel_flush._EVENT.size, place, request, -errno.EIO, more)
        return result

    monkeypatch.setattr(kernel, "_syscall", call)


def fail_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk fail: every fdatasync raises EIO."""

    def fdatasync(fd: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
