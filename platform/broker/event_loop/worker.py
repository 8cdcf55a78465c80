"""Threads for calls that may take long (ZooKeeper, fsync, recovery), so that the loop never makes one.

Jobs wait in a bounded queue and start in its order. Each job's result goes back to the loop thread. Knows nothing of what the
jobs do."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ...runtime.logs import get_logger

T = TypeVar("T")

log = get_logger(__name__)

Post = Callable[[Callable[[], None]], None]
"""Calls a function on the loop thread soon. Any thread may call it."""


class Worker:
    """One thread or several, with a bounded queue."""

    def __init__(self, name: str, post: Post, *, capacity: int = 1_000, threads: int = 1) -> None:
        self.name = name
        self.threads = threads
        self._post = post
        self._jobs: queue.Queue[tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]] | None] = (
            queue.Queue(capacity)
        )
        names = [name] if threads == 1 else [f"{name}-{number}" for number in range(threads)]
        self._threads = [threading.Thread(target=self._run, name=each, daemon=True) for each in names]

    def start(self) -> "Worker":
        for thread in self._threads:
            thread.start()
        return self

    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> bool:
        """Run `job` on a thread, then `done(result)` or `failed(error)` on the loop. Return False when the queue is full: then
        none of them is called.
        """
        try:
            self._jobs.put_nowait((job, done, failed))
        except queue.Full:
            return False
        return True

    def stop(self, timeout_ms: int = 10_000) -> None:
        """End the threads after the jobs that wait already. Their results are lost once the loop has ended."""
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            for _ in self._threads:
                self._jobs.put(None, timeout=max(0.0, deadline - time.monotonic()))
        except queue.Full:
            log.warning("worker_stuck", worker=self.name, waiting=self._jobs.qsize())
            return
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            log.warning("worker_stuck", worker=self.name, waiting=self._jobs.qsize())

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, done, failed = entry
            try:
                result = job()
            except Exception as error:
                self._post(_bound(failed, error))
            else:
                self._post(_bound(done, result))


def _bound(function: Callable[[Any], None], value: object) -> Callable[[], None]:
    return lambda: function(value)
