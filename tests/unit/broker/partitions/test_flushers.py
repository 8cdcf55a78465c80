"""What every `Flusher` promises, whether the kernel flushes or threads do. Real files, loop and threads; the disk's answer alone
is changed where it is to fail.
"""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.broker.event_loop.loop import Loop
from headrace.broker.event_loop.worker import Worker
from headrace.broker.partitions.flush_scheduler import FlushScheduler
from headrace.broker.partitions.flusher import Flusher, ThreadFlush
from headrace.broker.partitions.kernel_flush import KernelFlush
from headrace.broker.partitions.partition import Partition
from headrace.broker.settings.topic_settings import settings_of
from tests.support.small_logs import NOW_MS, batch, open_log
from tests.unit.broker.partitions.flushing import fail_in_kernel, fail_in_threads, flush_of, job_of, opened, until

AT_ONCE = 2


class Side(NamedTuple):
    loop: Loop
    flusher: Flusher
    fail: Callable[[], None]
    """Lets the disk fail from now on."""


def threads(loop: Loop) -> ThreadFlush:
    return ThreadFlush(Worker("flushers", loop.post, threads=AT_ONCE))


@pytest.fixture(params=["kernel", "threads"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Side]:
    """A flusher that is started; the test stops it."""
    loop = Loop()
    if request.param == "kernel":
        kernel = KernelFlush(loop, AT_ONCE, threads(loop))
        side = Side(loop, kernel, lambda: fail_in_kernel(kernel, monkeypatch))
    else:
        side = Side(loop, threads(loop), lambda: fail_in_threads(monkeypatch))
    side.flusher.start()
    yield side
    loop.close()


@pytest.fixture
def side(made: Side) -> Iterator[Side]:
    """A flusher that is started, and stopped after the test."""
    yield made
    made.flusher.stop()


def test_one_flush_after_the_other_ends_on_the_loop(side: Side, tmp_path: Path) -> None:
    log, ended = opened(tmp_path), list[Exception | None]()
    for number in range(1, 3 * AT_ONCE):
        job = flush_of(log)
        assert side.flusher.flush(job, ended.append, ended.append)
        until(side.loop, ended, number)
        job.done()
        assert log.flushed_offset == log.log_end_offset
    assert set(ended) == {None}


def test_it_says_how_many_it_takes_at_once_and_more_end_as_well(side: Side, tmp_path: Path) -> None:
    assert side.flusher.most_at_once == AT_ONCE
    jobs = [flush_of(opened(tmp_path / str(number))) for number in range(2 * AT_ONCE + 1)]
    ended: list[Exception | None] = []
    assert all(side.flusher.flush(job, ended.append, ended.append) for job in jobs)
    until(side.loop, ended, len(jobs))
    assert set(ended) == {None}


def test_several_files_and_a_folder_are_flushed_in_one_job(side: Side, tmp_path: Path) -> None:
    log, ended = open_log(tmp_path, segment_bytes=64, flush_on_roll=False), list[Exception | None]()
    for number in range(2):
        log.append(batch(b"%d" % number), NOW_MS)
    job = job_of(log)
    assert side.flusher.flush(job, ended.append, ended.append)
    until(side.loop, ended, 1)
    assert ended == [None]
    job.done()
    assert log.flushed_offset == log.log_end_offset


def test_a_flush_that_fails_says_why_and_is_marked_for_the_next_start(side: Side, tmp_path: Path) -> None:
    log, ended = opened(tmp_path), list[Exception | None]()
    side.fail()
    assert side.flusher.flush(flush_of(log), ended.append, ended.append)
    until(side.loop, ended, 1)
    assert isinstance(ended[0], OSError)
    assert ended[0].errno == errno.EIO
    assert (tmp_path / "flush-failed").exists()


def test_a_log_whose_flush_failed_takes_no_more(side: Side, tmp_path: Path) -> None:
    log, ended = opened(tmp_path), list[str | None]()
    scheduler = FlushScheduler(side.loop, side.flusher, threads(side.loop))
    partition = Partition("topic", 0, log, settings_of({"flush.ack": "always"}, {}), lambda at, _: scheduler.ask(at))
    side.fail()
    log.append(batch(b"more"), NOW_MS)
    partition.when_flushed(log.log_end_offset, ended.append)
    until(side.loop, ended, 1)
    assert "a flush failed" in str(ended[0])
    assert log.failure is not None
    assert scheduler.failed_count == 1


def test_a_stop_waits_for_what_is_under_way_and_tells_nobody(made: Side, tmp_path: Path) -> None:
    job, ended = flush_of(opened(tmp_path)), list[Exception | None]()
    made.fail()
    assert made.flusher.flush(job, ended.append, ended.append)
    made.flusher.stop()
    assert (tmp_path / "flush-failed").exists(), "it has run, and its failure is marked"
    assert not ended
