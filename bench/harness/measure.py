"""What the runner asks of a measure: cases, each one subject in one shape, run once a round, each giving named figures."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from .servers import Servers

Figures = Mapping[str, float]
"""Name, with its unit, → value of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One subject in one shape."""

    subject: str
    shape: str
    run: Callable[[int], Figures]
    """Takes the number of the round, so that each run has topics of its own."""
    how: str = ""
    """The settings that a reader needs to judge the figures."""


class Measure(Protocol):
    """One row, or a few, of the table of targets."""

    name: str
    title: str
    needs: frozenset[str]
    """Names of the servers it uses; the runner stops all others before it."""
    warm_ups: int
    """Rounds whose figures are discarded, for cold JITs and caches."""
    at_most: int
    """The most rounds: slow and steady measures need fewer."""

    def cases(self, servers: Servers) -> AbstractContextManager[list[Case]]:
        """Prepare, yield the cases, clean up."""


CaseStream = Iterator[list[Case]]
