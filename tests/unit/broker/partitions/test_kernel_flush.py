"""Flushes that the kernel runs: their guarantees, their bound, and the outcome of a failed one. Real files and loop; only the
kernel's result is changed where a disk should fail.
"""

import errno
import os
from collections.abc import Iterator, Sized
from pathlib import Path

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.event_loop.worker import Worker
from headrace.broker.log import FlushJob, FolderFault, PartitionLog
from headrace.broker.log.jobs.flush_job import FlushWork
from headrace.broker.log.jobs.log_job import LogJob
from headrace.broker.partitions import kernel_flush
from headrace.broker.partitions.flush_scheduler import FlushScheduler
from headrace.broker.partitions.kernel_flush import KernelFlush
from headrace.broker.partitions.partition import Partition
from headrace.broker.settings.topic_settings import settings_of
from tests.support.processes import eventually
from tests.support.small_logs import NOW_MS, batch, open_log

PLACES = 2


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def kernel(loop: Loop) -> Iterator[KernelFlush]:
    made = KernelFlush(loop, PLACES)
    yield made
    made.stop()


def opened(folder: Path) -> PartitionLog:
    log = open_log(folder)
    log.append(batch(b"first"), NOW_MS)
    log.flush()
    return log


def flush_of(log: PartitionLog) -> FlushJob:
    log.append(batch(b"more"), NOW_MS)
    job = log.flush_job()
    assert job is not None
    return job


def until(loop: Loop, told: Sized, count: int) -> None:
    """Run the loop until so many outcomes were reported."""

    def enough() -> bool:
        loop._turn(loop._epoll.poll(0))
        return len(told) == count

    eventually(enough, what=f"{count} flushes ended", every_ms=1)


def test_a_flush_ends_on_the_loop_and_its_place_is_free_again(loop: Loop, kernel: KernelFlush, tmp_path: Path) -> None:
    log, told = opened(tmp_path), list[Exception | None]()
    for number in range(1, 3 * PLACES):
        job = flush_of(log)
        assert kernel.submit(job, told.append, told.append)
        until(loop, told, number)
        job.done()
        assert log.flushed_offset == log.log_end_offset
    assert set(told) == {None}


def test_who_finds_no_place_is_told(loop: Loop, kernel: KernelFlush, tmp_path: Path) -> None:
    logs = [opened(tmp_path / str(number)) for number in range(PLACES + 1)]
    jobs, told = [flush_of(log) for log in logs], list[Exception | None]()
    assert [kernel.submit(job, told.append, told.append) for job in jobs] == [True] * PLACES + [False]
    until(loop, told, PLACES)
    assert kernel.submit(jobs[-1], told.append, told.append)


def test_a_flush_with_a_folder_or_several_files_is_not_for_the_kernel(kernel: KernelFlush, tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64, flush_on_roll=False)
    for number in range(2):
        log.append(batch(b"%d" % number), NOW_MS)
    job = log.flush_job()
    assert job is not None
    assert job.work.only_fd is None
    assert not kernel.submit(job, print, print)


def failing(kernel: KernelFlush, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_flush_that_fails_says_why_and_is_marked_for_the_next_start(
    loop: Loop, kernel: KernelFlush, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, told = opened(tmp_path), list[Exception | None]()
    failing(kernel, monkeypatch)
    assert kernel.submit(flush_of(log), told.append, told.append)
    until(loop, told, 1)
    assert isinstance(told[0], OSError)
    assert told[0].errno == errno.EIO
    assert (tmp_path / "flush-failed").exists()


def test_a_failure_that_a_stop_meets_is_marked_as_well(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KernelFlush(loop, PLACES)
    log, told = opened(tmp_path), list[Exception | None]()
    failing(kernel, monkeypatch)
    assert kernel.submit(flush_of(log), told.append, told.append)
    kernel.stop()
    assert not told
    assert (tmp_path / "flush-failed").exists()


def test_a_stop_waits_for_a_flush_that_does_not_end_no_longer_than_its_bound(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel, told = KernelFlush(loop, PLACES), list[Exception | None]()
    monkeypatch.setattr(kernel_flush, "STOP_MS", 20)
    monkeypatch.setattr(kernel, "_take", lambda: [])  # the kernel never reports an end
    assert kernel.submit(flush_of(opened(tmp_path)), told.append, told.append)
    kernel.stop()
    assert not told
    assert "flush_stuck" in caplog.text


def test_a_log_whose_flush_failed_in_the_kernel_takes_no_more(
    loop: Loop, kernel: KernelFlush, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, told = opened(tmp_path), list[str | None]()
    scheduler = FlushScheduler(loop, Worker("unused", loop.post), Worker("unused", loop.post), kernel)
    partition = Partition("topic", 0, log, settings_of({"flush.ack": "always"}, {}), lambda at, _: scheduler.ask(at))
    failing(kernel, monkeypatch)
    log.append(batch(b"more"), NOW_MS)
    partition.when_flushed(log.log_end_offset, told.append)
    until(loop, told, 1)
    assert "a flush failed" in str(told[0])
    assert log.failure is not None
    assert scheduler.failed_count == 1


def test_a_system_that_cannot_leaves_it_to_threads(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_flush, "_CALLS", {})
    assert kernel_flush.kernel_flush(loop, PLACES) is None


def test_a_file_that_cannot_be_flushed_so_is_left_to_threads(kernel: KernelFlush, tmp_path: Path) -> None:
    class OfPipe(FlushWork):
        @property
        def only_fd(self) -> int | None:
            return reading

    reading, writing = os.pipe()
    try:
        work = OfPipe(tmp_path, up_to_offset=0, segments=[], folders=[], entries_made=0)
        job: FlushJob = LogJob(
            work, done=lambda _: None, failed=lambda _, error: FolderFault(topic="t", partition=0, path=tmp_path, cause=error)
        )
        assert not kernel.submit(job, print, print)
    finally:
        os.close(reading)
        os.close(writing)
