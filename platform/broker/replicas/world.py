"""What a replica's driver needs of its broker. `replicas.Replicas` is it; tests play it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..partitions.flush_scheduler import Flushable
from ..partitions.partition import AskFlush, PartitionTable
from ..replication.facts import ReplicaFetch
from ..replication.state import State
from ..replication.swaps import Swap

if TYPE_CHECKING:
    from .driver import ReplicaDriver

Done = Callable[[Any], None]
Failed = Callable[[Exception], None]


class World(Protocol):
    """What a driver needs of its broker (`replicas.Replicas`)."""

    broker_id: int
    table: PartitionTable
    ask_flush: AskFlush

    @property
    def now_ms(self) -> int:
        """Monotonic."""
        ...

    @property
    def wall_ms(self) -> int: ...

    def polling(self) -> frozenset[int]:
        """Return the followers whose processes poll this broker."""
        ...

    def at_turn_end(self, function: Callable[[], None]) -> None: ...

    def on_disk(self, job: Callable[[], Any], done: Done, failed: Failed) -> bool:
        """Run a short job that waits for the disk. False: too much waits."""
        ...

    def behind_upkeep(self, job: Callable[[], Any], done: Done, failed: Failed) -> bool:
        """Run a job when no upkeep of this log is under way."""
        ...

    def forget_flush(self, target: Flushable) -> None: ...

    def flush_has_failed(self) -> None:
        """Note durably that the folder's lives end with this process."""
        ...

    def read_node(self, driver: "ReplicaDriver") -> None: ...

    def look_at_node(self, driver: "ReplicaDriver", done: Callable[[State | None], None]) -> None:
        """Call `done` with the node as it is after this call, without telling the machine. None: it could not be read."""
        ...

    def ask_swap(self, driver: "ReplicaDriver", swap: Swap) -> None: ...

    def send_fetch(self, driver: "ReplicaDriver", to: int, fetch: ReplicaFetch) -> None: ...

    def has_answer(self, driver: "ReplicaDriver", to: int) -> None:
        """There is something to send to a follower."""
        ...

    def refuse(self, driver: "ReplicaDriver", to: int, leader_epoch: int) -> None: ...

    def hand_over(self, driver: "ReplicaDriver", to: int, leader_epoch: int) -> None:
        """Ask a member to take over, soon."""
        ...

    def forget_messages(self, driver: "ReplicaDriver") -> None:
        """Send nothing any more that waits to be sent for this replica."""
        ...
