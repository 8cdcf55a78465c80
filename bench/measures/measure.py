"""What a measure is: cases, each one subject in one shape, run once a round, each giving named figures."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ..drivers.run import Driven
from ..harness.stage import Stage
from ..peers.peer import MESSAGE_BYTES

Figures = Mapping[str, float]
"""Name, with its unit, → value of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One subject in one shape."""

    subject: str
    shape: str
    run: Callable[[int], Figures]
    """Takes the number of the round, so that topics have names of their own."""
    how: str = ""
    """What a reader must know to judge it."""


class Measure(Protocol):
    """One row, or a few, of the issue's table."""

    name: str
    title: str
    needs: frozenset[str]
    """The servers of the stage that it uses; all others are stopped before it."""
    warm_ups: int
    """Rounds run first and thrown away: cold JIT, cold caches."""
    at_most: int
    """Rounds at most: what is slow and steady is not run as often."""

    def cases(self, stage: Stage) -> AbstractContextManager[list[Case]]:
        """Prepare, yield the cases, clean up."""


CaseStream = Iterator[list[Case]]


def figures_of(driven: Driven, message_bytes: int = MESSAGE_BYTES) -> dict[str, float]:
    """Return the figures that every driver's result has."""
    return {
        "messages_per_s": driven.count / driven.seconds,
        "mb_per_s": driven.count * message_bytes / driven.seconds / 1e6,
        "server_cpu_s_per_million": driven.server_cpu_s / driven.count * 1e6,
        "client_busy": driven.client_cpu_s / driven.seconds,
        "server_busy": driven.server_cpu_s / driven.seconds,
        "seconds": driven.seconds,
    }
