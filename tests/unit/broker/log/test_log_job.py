"""A log's job: the work runs anywhere, and the log then gets its result or its error."""

from pathlib import Path

import pytest

from headrace.broker.log import FolderFault, LogError
from headrace.broker.log.jobs.log_job import LogJob

FOLDER = Path("t-0")


class Work:
    def __init__(self, error: OSError | None = None) -> None:
        self.error = error
        self.run_count = 0

    def run(self) -> None:
        self.run_count += 1
        if self.error is not None:
            raise self.error


def job_of(work: Work) -> LogJob[Work, int]:
    def failed(_: Work, error: OSError) -> LogError:
        return FolderFault(topic="t", partition=0, path=FOLDER, cause=error)

    return LogJob(work, done=lambda work: work.run_count, failed=failed)


def test_a_job_that_is_run_to_its_end_returns_what_the_log_made_of_it() -> None:
    assert job_of(Work()).run_to_end() == 1


def test_a_job_that_fails_raises_the_error_of_the_log_with_its_cause() -> None:
    error = OSError(5, "Input/output error")
    with pytest.raises(FolderFault, match="Input/output error") as caught:
        job_of(Work(error)).run_to_end()
    assert caught.value.__cause__ is error


def test_any_error_of_a_worker_is_reported_as_an_error_of_the_log() -> None:
    assert "the worker was stopped" in str(job_of(Work()).failed(RuntimeError("the worker was stopped")))
