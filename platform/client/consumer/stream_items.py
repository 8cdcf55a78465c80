"""Values that the consumer's threads pass to each other: fetched batches, ranges to skip, and notices to the application."""

import threading
from dataclasses import dataclass, field
from enum import Enum, auto

from ...wire.batch.record_batch import BatchHeader
from ..fetch.fetched import CorruptRange, TopicPartition


class NoticeKind(Enum):
    """The three changes of ownership that the application learns of."""

    ASSIGNED = auto()
    REVOKED = auto()
    """The partition is still owned during the callback: the application may commit."""
    LOST = auto()
    """The partition is gone already: what was not committed will be delivered again to another member."""


@dataclass(slots=True, kw_only=True)
class Notice:
    """One change of ownership on its way to the application."""

    kind: NoticeKind
    partitions: dict[TopicPartition, int]
    """Partition → where it begins (ASSIGNED), or the application's position (REVOKED, LOST)."""
    taken: bool = False
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A fetched batch, to be handed out from `from_offset` on."""

    partition: TopicPartition
    epoch: int
    header: BatchHeader
    batch: memoryview
    from_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A range that cannot be handed out, at its place among the batches."""

    partition: TopicPartition
    epoch: int
    corrupt: CorruptRange


Fetched = Batch | Skip
