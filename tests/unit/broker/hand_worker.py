"""A worker whose thread is the test: a job runs when the test says so."""

from collections.abc import Callable
from typing import Any

from headrace.broker.event_loop.worker import Worker


class HandWorker(Worker):
    """A worker whose jobs run when the test says so, at most `capacity` of them waiting."""

    def __init__(self, capacity: int = 10_000) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]] = []
        self.capacity = capacity

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        if len(self.jobs) >= self.capacity:
            return False
        self.jobs.append((job, done, failed))
        return True

    def run_one(self) -> None:
        job, done, failed = self.jobs.pop(0)
        try:
            result = job()
        except Exception as error:
            failed(error)
        else:
            done(result)

    def run(self) -> None:
        """Run all jobs, and those that they add."""
        while self.jobs:
            self.run_one()
