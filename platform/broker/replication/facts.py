"""What the machine knows of logs and of messages between replicas: plain values. Pure."""

from dataclasses import dataclass

from .lives import Lives
from .state import Epochs, end_epoch, epoch_at

NO_CRC = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """One's own log as it is now."""

    log_start_offset: int = 0
    end_offset: int = 0
    """After the last batch written."""
    flushed_offset: int = 0
    epochs: Epochs = ()
    """The list beside the log. The CRC of a batch does not cover the epoch in its bytes, so those are not asked."""
    last_crc: int = NO_CRC
    """Of the last batch."""
    is_damaged: bool = False
    incarnation: int = 0
    """Raised by each cut, so that what began before a cut is known when it finishes after it."""

    @property
    def last_epoch(self) -> int:
        return end_epoch(self.epochs, self.end_offset)

    @property
    def begun_epoch(self) -> int:
        """Return the epoch of the next batch: a leader may have begun one in which it has appended nothing."""
        return epoch_at(self.epochs, self.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """A batch that a leader sent."""

    position: int
    next_offset: int
    crc: int
    is_sound: bool = True
    """Whether the CRC matches the bytes that arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetch:
    """A follower's request. It asks for batches, and says what the follower has."""

    topic_id: str
    broker_id: int
    leader_epoch: int
    lives: Lives
    fetch_offset: int
    """What is asked for. It may be ahead of what was appended."""
    written_offset: int
    flushed_offset: int
    log_start_offset: int
    last_epoch: int
    last_crc: int
    is_damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """A leader's answer: batches from `fetch_offset` on."""

    topic_id: str
    leader: int
    leader_epoch: int
    fetch_offset: int
    batches: tuple[BatchFacts, ...]
    epochs: Epochs
    """The leader's list, which gives each batch its epoch."""
    gaps: tuple[tuple[int, int], ...]
    """Ranges that the leader's log never held, by intention (a mirror's jump). A follower jumps over no other range."""
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a follower has acknowledged to this leader within this epoch and with these lives."""

    lives: Lives
    written_offset: int
    flushed_offset: int
    log_start_offset: int
    is_damaged: bool
    heard_ms: int
