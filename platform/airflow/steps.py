"""What the DAGs' tasks have in common: steps of `headrace load`, retries, and how a run ends when one topic is at fault."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ..spark.errors import FAULTS_EXIT_CODE
from .places import Places

RETRIED: dict[str, Any] = {"retries": 5, "retry_delay": timedelta(seconds=3)}


class _Hook(SubprocessHook):
    """Knows how its command ended."""

    exit_code: int | None = None

    def run_command(self, *words: Any, **named: Any) -> Any:
        result = super().run_command(*words, **named)
        self.exit_code = result.exit_code
        return result


class HeadraceStep(BashOperator):
    """A command of ours, with the environment of the DAG's places.

    It is added to the process's environment only when the task runs; rendered templates show none of it.
    """

    def __init__(self, *, places: Places, **words: Any) -> None:
        super().__init__(append_env=True, **words)
        self.places = places
        self._found: dict[str, str] = {}

    @cached_property
    def subprocess_hook(self) -> SubprocessHook:
        return _Hook()

    def execute(self, context: Any) -> Any:
        with self.places.environment() as self._found:
            try:
                return super().execute(context)
            except AirflowException as error:
                if getattr(self.subprocess_hook, "exit_code", None) == FAULTS_EXIT_CODE:
                    raise AirflowFailException("topics are at fault, see above; all others are done") from error
                raise

    def get_env(self, context: Any) -> dict[str, str]:
        return {**super().get_env(context), **self._found}


def step(name: str, places: Places, *, timeout: timedelta, **words: Any) -> HeadraceStep:
    """Return a task that runs one step of `headrace load` over all topics."""
    return command(name, f"headrace load --all --step {name}", places, timeout=timeout, **words)


def command(name: str, line: str, places: Places, *, timeout: timedelta, **words: Any) -> HeadraceStep:
    """Return a task that runs a command of ours. `exec`: a kill of the task kills the command itself."""
    return HeadraceStep(
        task_id=name,
        places=places,
        bash_command=f"exec {line}",
        execution_timeout=timeout,
        **{**RETRIED, **words},
    )


@contextmanager
def of_this_task(places: Places) -> Iterator[None]:
    """Have this process, which is the task's own, find its places in the environment."""
    with places.environment() as found:
        os.environ.update(found)
        yield


@task(trigger_rule="one_failed", retries=0)
def at_fault() -> None:
    """Fail the run: steps continue for the other topics when one is at fault, and would leave a run that looks sound."""
    raise AirflowFailException("a step of this run failed, or some of its topics: the step's log names them")


def fail_on_faults(faults: Mapping[str, Exception]) -> None:
    """Fail the task without a retry if there are faults. Each was logged where it happened."""
    if faults:
        words = "; ".join(f"{topic}: {type(fault).__name__}: {fault}" for topic, fault in sorted(faults.items()))
        raise AirflowFailException(f"{len(faults)} topics are at fault, all others are done: {words}")
