"""What a replica's broker must do, in this sequence: the machine's output. Pure.

A process may die between two orders. Nothing that a later order promises may depend on an order that was not carried out.
"""

from dataclasses import dataclass

from .facts import BatchFacts, ReplicaFetch
from .state import Epochs, Member, State
from .swaps import Swap


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNode:
    """Read the node, after a sync; `NodeRead` tells what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSwap:
    """Send the swap; `SwapAnswered` tells the answer."""

    swap: Swap


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Make durable that this node was obeyed, before anything is done by it. `went_back`: obey no node until an operator does."""

    version: int
    leader_epoch: int
    members: tuple[Member, ...] = ()
    went_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Cut the log's end back, durably; `LogChanged` tells when it is done. The tail is put aside."""

    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEmpty:
    """Put the whole log aside, and begin an empty one here, durably, with this list of epochs."""

    at_offset: int
    epochs: Epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """Add an epoch to the list beside the log, durably, before anything of it is appended."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Let the log end there, with a gap in front."""

    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append what the producer sent; `Appended` tells where it is."""

    token: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendCopied:
    """Append a leader's batch at its own position; `LogChanged` tells when it is done."""

    batch: BatchFacts
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFlush:
    """Flush the log; `FlushDone` tells when it is done."""

    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceStart:
    """Delete the records before an offset, durably."""

    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFetch:
    to: int
    fetch: ReplicaFetch


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFetch:
    """Send batches from `fetch_offset` on to a follower."""

    to: int
    leader_epoch: int
    fetch_offset: int
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseFetch:
    to: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Answer a producer or a deleter: it is done."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer a producer or a deleter: it is not done here, or not known."""

    token: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Ask a member to take over (`HandedOver`). It need not arrive: it is ordered again at each tick until another leads."""

    to: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseConnections:
    """Close the connections to other replicas: the leadership or the epoch has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Report to the operator that this replica has stopped, and why."""

    reason: str
    state: State | None


Order = (
    ReadNode
    | AskSwap
    | Note
    | Cut
    | BeginEmpty
    | BeginEpoch
    | Jump
    | Append
    | AppendCopied
    | AskFlush
    | AdvanceStart
    | SendFetch
    | AnswerFetch
    | RefuseFetch
    | Acknowledge
    | Refuse
    | HandOver
    | CloseConnections
    | Alarm
)
