"""What passes between the threads of a consumer: fetched batches, ranges to skip, and notices to the application. Values only."""

import threading
from dataclasses import dataclass, field
from enum import Enum, auto

from ...wire.batch.record_batch import BatchHeader
from ..fetch.fetched import CorruptRange, TopicPartition


class NoticeKind(Enum):
    """What the application is told."""

    ASSIGNED = auto()
    REVOKED = auto()
    """Still owned while it is told: it may commit."""
    LOST = auto()
    """Gone already: what was not committed will be delivered to another, too."""


@dataclass(slots=True, kw_only=True)
class Notice:
    """One change of ownership on its way to the application."""

    kind: NoticeKind
    partitions: dict[TopicPartition, int]
    """Partition -> where it begins, or where the application stands."""
    taken: bool = False
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A fetched batch that waits to be handed out from `from_offset` on."""

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
