"""Generators that yield wherever their caller may do other work, and return a result. Pure."""

from collections.abc import Generator
from typing import TypeVar

Made = TypeVar("Made")


def run_to_end(generator: Generator[None, None, Made]) -> Made:
    """Return what the generator returns, without a pause. Raises what the generator raises."""
    while True:
        try:
            next(generator)
        except StopIteration as end:
            made: Made = end.value
            return made
