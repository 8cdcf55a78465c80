"""Requests as functions that yield (step, response). The same function runs against both servers, once for each version that
both serve.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.clients.answers.plain import Table
from tests.clients.answers.side import Side

Step = tuple[str, Table]
Ask = Callable[[Side, int, str], Iterator[Step]]
"""Takes the server, the version, and a name that no other run uses."""


class Sequence(NamedTuple):
    """One sequence of requests about one API."""

    name: str
    api_key: int
    ask: Ask


SEQUENCES: list[Sequence] = []


def about(api_key: int) -> Callable[[Ask], Ask]:
    """Register the decorated function."""

    def enter(ask: Ask) -> Ask:
        SEQUENCES.append(Sequence(ask.__name__, api_key, ask))
        return ask

    return enter
