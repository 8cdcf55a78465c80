"""What became of a transaction whose answer was lost, or that failed: concluded from the rows, never guessed. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from ...client.fetch.fetched import TopicPartition
from .protocol import Move, Position


class Outcome(NamedTuple):
    is_committed: bool
    taken: frozenset[TopicPartition]
    """Partitions whose rows hold neither what they held before nor what was to be written: they are another member's."""


def outcome_of(moves: Mapping[TopicPartition, Move], found: Mapping[TopicPartition, Position]) -> Outcome:
    """Return the outcome. Of partitions that others have taken, the rows say nothing; the transaction moved all or none."""
    taken = {
        name
        for name, (held, to) in moves.items()
        if found.get(name) not in (held, Position(to, held.fence))  # only this member writes under its fence
    }
    left = [name for name in moves if name not in taken]
    return Outcome(bool(left) and all(found[name].next_offset == moves[name].to for name in left), frozenset(taken))
