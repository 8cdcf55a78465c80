"""Flushes that the kernel runs: what it takes itself, what it leaves to threads, and its bounds. What it has in common with the
plain way is in `test_flushers`. Real files and loop.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.log import FlushJob, FolderFault
from headrace.broker.log.jobs.flush_job import FlushWork
from headrace.broker.log.jobs.log_job import LogJob
from headrace.broker.machine import SystemMachine
from headrace.broker.partitions import kernel_flush
from headrace.broker.partitions.flusher import ThreadFlush
from headrace.broker.partitions.kernel_flush import KernelFlush
from tests.support.small_logs import NOW_MS, batch, open_log
from tests.unit.broker.partitions.flushing import flush_of, job_of, opened, until

PLACES = 2


class Left:
    """A flusher that notes what is left to it and carries out nothing."""

    most_at_once = PLACES

    def __init__(self) -> None:
        self.jobs: list[FlushJob] = []
        self.is_full = False

    def start(self) -> None: ...

    def flush(self, job: FlushJob, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        self.jobs.append(job)
        return not self.is_full

    def stop(self) -> None: ...


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def left() -> Left:
    return Left()


@pytest.fixture
def kernel(loop: Loop, left: Left) -> Iterator[KernelFlush]:
    made = KernelFlush(loop, PLACES, left)
    yield made
    made.stop()


def test_what_finds_no_place_is_left_to_threads_and_a_place_is_free_again_after_a_flush(
    loop: Loop, kernel: KernelFlush, left: Left, tmp_path: Path
) -> None:
    logs = [opened(tmp_path / str(number)) for number in range(PLACES + 1)]
    jobs, ended = [flush_of(log) for log in logs], list[Exception | None]()
    assert all(kernel.flush(job, ended.append, ended.append) for job in jobs)
    assert left.jobs == jobs[PLACES:]
    until(loop, ended, PLACES)
    assert kernel.flush(jobs[-1], ended.append, ended.append)
    assert len(left.jobs) == 1


def test_a_flush_with_a_folder_or_several_files_is_left_to_threads(kernel: KernelFlush, left: Left, tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=64, flush_on_roll=False)
    for number in range(2):
        log.append(batch(b"%d" % number), NOW_MS)
    job = job_of(log)
    assert job.work.only_fd is None
    assert kernel.flush(job, print, print)
    assert left.jobs == [job]


def test_what_threads_do_not_take_either_is_refused(kernel: KernelFlush, left: Left, tmp_path: Path) -> None:
    left.is_full = True
    jobs = [flush_of(opened(tmp_path / str(number))) for number in range(PLACES + 1)]
    assert [kernel.flush(job, print, print) for job in jobs] == [True] * PLACES + [False]


def test_a_stop_waits_for_a_flush_that_does_not_end_no_longer_than_its_bound(
    loop: Loop, left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel, ended = KernelFlush(loop, PLACES, left), list[Exception | None]()
    monkeypatch.setattr(kernel_flush, "STOP_MS", 20)
    monkeypatch.setattr(kernel, "_take", lambda: [])  # the kernel never says that one has ended
    assert kernel.flush(flush_of(opened(tmp_path)), ended.append, ended.append)
    kernel.stop()
    assert not ended
    assert "flush_stuck" in caplog.text


def test_the_kernel_is_chosen_where_it_can_flush(loop: Loop) -> None:
    chosen = SystemMachine().flusher(loop)
    assert isinstance(chosen, KernelFlush)
    chosen.start()
    chosen.stop()


def test_a_system_that_cannot_leaves_it_to_threads(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(kernel_flush, "_CALLS", {})
    assert isinstance(SystemMachine().flusher(loop), ThreadFlush)
    assert "no_kernel_flush" in caplog.text


def test_a_file_that_cannot_be_flushed_so_is_left_to_threads(kernel: KernelFlush, left: Left, tmp_path: Path) -> None:
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
        assert kernel.flush(job, print, print)
        assert left.jobs == [job]
    finally:
        os.close(reading)
        os.close(writing)
