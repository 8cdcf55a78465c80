"""Work that pauses: a generator that yields wherever whoever runs it may do other things, and returns what it makes. Pure."""

from collections.abc import Generator
from typing import TypeVar

Made = TypeVar("Made")


def at_once(steps: Generator[None, None, Made]) -> Made:
    """Return what `steps` make, run without a pause. Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made
