"""What `EventReader.run_batches` needs of a database that holds positions.

A position is the offset up to which a partition's records are stored. Beside it is a fence: a number that grows with each
takeover. Only the member that took the partition over last has the row's fence, so no other one can move the position.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

from ...client.fetch.fetched import TopicPartition
from ...errors import HeadraceError
from ..errors import ReaderError


class Position(NamedTuple):
    """A row's content."""

    next_offset: int
    """Everything before it is stored."""
    fence: int


class Move(NamedTuple):
    """What a transaction does to one partition's row."""

    held: Position
    """What the row must hold."""
    to: int
    """`next_offset` afterwards; the fence stays."""


class Fenced(HeadraceError):
    """Rows do not hold what this member loaded: another member has taken the partitions over, or the rows were edited."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        super().__init__(f"the positions of {', '.join(sorted(map(name_of, partitions)))} are not those that this member loaded")


class TransactionEnded(ReaderError):
    """The application's `store` ended the reader's transaction, so its rows are committed without the positions."""

    def __init__(self) -> None:
        super().__init__(
            "store ended the transaction of its cursor: its rows are committed, their positions are not, so these records will "
            "be stored again. Do not commit, roll back or call executescript (which commits) in store"
        )


class LogBeganAnew(ReaderError):
    """Records below the position were read: the topic was deleted and made again, or its log was cut, while it was read."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        super().__init__(
            f"the log of {', '.join(sorted(map(name_of, partitions)))} begins again below what is stored: the topic was deleted "
            "and made again, or its log was cut. Nothing of it was stored. Start the reader again: it begins at the group's "
            "offset"
        )


class Positions(Protocol):
    """One database. Each of a reader's threads calls it, and has a connection of its own in it.

    Every method raises ProcessorAway while the database cannot be used. The reader tries again, so nothing is retried here.
    """

    def take_over(
        self, group: str, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, Position]:
        """Raise the fence of each partition and return its row, durably. A partition without a row gets one that holds `starts`.

        `topic_ids`: the id of each topic, without those that have none. A topic with another id is another one: it has other
        rows.
        """

    def read(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Position]:
        """Return the rows that this thread took over, once no transaction that changes them is under way."""

    def store(self, group: str, moves: Mapping[TopicPartition, Move], work: Callable[[Any], object]) -> None:
        """Call `work(cursor)` and move the positions, in one transaction. On return it is committed.

        Raises Fenced, TransactionEnded, and what `work` raises: then it is rolled back. ProcessorAway says nothing about what
        became of the transaction: the reader finds out by `read`.
        """

    def close(self) -> None:
        """Close the calling thread's connection. A later call opens another one."""


def name_of(name: TopicPartition) -> str:
    return f"{name.topic}-{name.partition}"
