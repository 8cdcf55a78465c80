"""One replica of one partition as the machine sees it, and one turn of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .facts import LogFacts, Progress
from .lives import Lives
from .orders import Order
from .state import Member, State
from .swaps import Swap


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Knows no node, or is not a replica of the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingOver:
    """Nothing is fetched, appended or acknowledged until the swap is settled."""

    dead: frozenset[int]
    recover_at: int | None = None
    """Where a recovery after a loss begins; None for a takeover by a member."""
    log_start_offset: int = 0
    """Of a recovery: where the log is to begin."""
    base: int = 0
    """Of the recovery of a node that went back: where its versions begin from now on."""

    @property
    def is_recovery(self) -> bool:
        return self.recover_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    leader_epoch: int
    start_offset: int
    began_ms: int
    progress: Mapping[int, Progress] = field(default_factory=dict)
    """By broker, within this epoch. Never changed in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Does nothing any more until the broker is started again or an operator decides."""

    reason: str
    went_back: bool = False
    """Whether it obeys again when an operator has recovered the partition."""


Role = Waiting | Following | TakingOver | Leading | Stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """The last node that was obeyed, noted durably in the folder."""

    version: int = -1
    leader_epoch: int = 0
    members: tuple[Member, ...] = ()
    """The set that it had. Empty, too, where an earlier release has noted it."""
    went_back: bool = False
    """ZooKeeper went back behind it. Then no node is obeyed until an operator decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A producer or a deleter that is answered when every needed member has reached `offset`."""

    token: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The whole state of the machine."""

    topic_id: str
    broker_id: int
    start_number: int
    lives: Lives
    min_insync_replicas: int = 2
    acks_on_disk: bool = False
    """`flush.ack=always`."""
    given_up_epoch: int = 0
    """The last epoch in which this process led and then stopped. It leads in no epoch up to this one again."""
    silent_ms: int = 10_000
    """A member that was not heard for this long is removed from the set."""
    log: LogFacts
    noted: Noted = Noted()
    role: Role = Waiting()
    node: State | None = None
    """The node that is obeyed."""
    undecided: tuple[Swap, ...] = ()
    """Swaps that may have landed or may still land, all on one version."""
    is_cut_off: bool = False
    """Whether a swap that is needed got no answer from ZooKeeper."""
    is_cutting: bool = False
    is_leaving: bool = False
    """Whether this process is about to stop. A follower then leaves the set, and fetches until it has left."""
    high_watermark: int = 0
    producers: tuple[Waiter, ...] = ()
    deleters: tuple[Waiter, ...] = ()
    now_ms: int = 0

    def entry(self) -> Member | None:
        """Return this replica's entry in the set of the obeyed node, None when it has none under its present lives."""
        member = None if self.node is None else self.node.member(self.broker_id)
        return member if member is not None and member.life in self.lives else None


class Turn:
    """What one event changes: the replica, and the orders so far. Lives within one call of `model.step`."""

    __slots__ = ("orders", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.orders: list[Order] = []

    def change(self, **fields: object) -> None:
        self.replica = replace(self.replica, **fields)  # type: ignore[arg-type]  # names and types are those of `Replica`

    def order(self, *orders: Order) -> None:
        self.orders += orders


def visible_end(replica: Replica) -> int | None:
    """Return the end of what consumers may read here, None while that is not known.

    A new leader may know a lower watermark than the last one did. It answers only when every member has reached the start of its
    epoch (KIP-207).
    """
    role = replica.role
    if not isinstance(role, Leading) or replica.high_watermark < role.start_offset:
        return None
    return replica.high_watermark
