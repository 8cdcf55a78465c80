"""A worker whose thread is the test: a job runs when the test says so."""

from collections.abc import Callable
from typing import Any


class HandWorker:
    """Runs a job when the test says so, or refuses all jobs."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]] = []
        self.is_full = False

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        if not self.is_full:
            self.jobs.append((job, done, failed))
        return not self.is_full

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
