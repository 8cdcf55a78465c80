"""What may happen to a replica: the machine's input. Pure."""

from dataclasses import dataclass

from .facts import FetchAnswer, LogFacts, ReplicaFetch
from .state import State
from .suspicion import Signs
from .swaps import Answer, Swap


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRead:
    """The node was read, None when there is none. `is_synced` False: perhaps from a server that lags behind."""

    state: State | None
    is_synced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapAnswered:
    swap: Swap
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """A producer wants to append. `duplicate_end`: its batch is in the log already and ends there."""

    token: int
    duplicate_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The batch of an `Append` is in the log."""

    token: int
    log: LogFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChanged:
    """The log is different now: batches were copied, its start has moved, it was cut, or damage was found."""

    log: LogFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushDone:
    """A flush of the log's `incarnation` has put everything before `flushed_offset` on disk."""

    incarnation: int
    flushed_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReceived:
    """`own_epoch`, `own_crc`: of the batch of this log that ends at the fetch's `written_offset`; None when none ends there."""

    fetch: ReplicaFetch
    own_epoch: int | None
    own_crc: int | None
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLost:
    """A follower's connection has ended, and it has not come back. It counts as not heard for too long."""

    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowersHeard:
    """These followers' processes poll this broker. A member that has everything counts as heard: it has nothing to tell."""

    broker_ids: frozenset[int]
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerReceived:
    answer: FetchAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRefused:
    """The leader does not answer this replica's fetch, and says the epoch in which it leads, if it leads."""

    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSilent:
    """The leader does not answer fetches."""

    signs: Signs
    dead: frozenset[int]
    """The brokers without a registration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """The leader of this epoch, or an operator, asks this member to take over."""

    leader_epoch: int
    leader_stops: bool = False
    """The leader's process is about to stop: it leaves the set with the same swap, if the set stays large enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """This process is about to stop: it leaves the set, so that the leader need not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    token: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    min_insync_replicas: int
    acks_on_disk: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Every member has lost its life, or an operator has decided: this replica continues alone, at `start_offset`."""

    start_offset: int
    restored: State | None = None
    """The node that ZooKeeper has, where it is older than what the replicas have noted. Of it only the replicas count."""
    base: int = 0
    """Where the node's versions begin from now on: behind every version that was noted."""
    leader_epoch: int = 0
    """The new epoch, later than every one that was noted."""
    log_start_offset: int = 0
    """Records before it are deleted at another replica: they must not come back."""


Event = (
    NodeRead
    | SwapAnswered
    | Produce
    | Appended
    | LogChanged
    | FlushDone
    | FetchReceived
    | FollowerLost
    | FollowersHeard
    | AnswerReceived
    | FetchRefused
    | LeaderSilent
    | HandedOver
    | Leave
    | Tick
    | DeleteRecords
    | Configured
    | Recover
)
