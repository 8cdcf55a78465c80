"""Compare-and-swap of a partition's node, fenced by the process that asks for it. Pure.

A swap is one ZooKeeper transaction: check the start number of the process, then write the node if it still has the version. So
the swap of a dead process cannot land after its successor began. An unanswered swap may still land. Only another swap on the
same version settles it: after that one was answered, the version has passed, and nothing on the old version can land.
"""

from dataclasses import dataclass
from enum import Enum

from .state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Lands only while this is the start number of the broker."""

    broker_id: int
    start_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Writes `wanted` if the node still has `version`."""

    version: int
    wanted: State
    fence: Fence | None
    base: int = 0
    """Of the node that is replaced: where its versions begin."""

    @property
    def landed(self) -> State:
        """Return the node as it is when this swap has landed."""
        return self.wanted


class Answer(Enum):
    """What ZooKeeper said."""

    LANDED = "landed"
    PASSED = "passed"
    """The node has another version."""
    FENCED = "fenced"
    """The broker was started again."""
    LOST = "lost"
    """No answer: it has landed, will land, or never will."""


def fence_of(broker_id: int, start_number: int) -> Fence | None:
    return Fence(broker_id=broker_id, start_number=start_number)


def settles(swap: Swap, read: State) -> bool:
    """Return whether a node that was read proves that `swap` cannot land any more: the version has passed.

    A node of the same version proves nothing, because the swap may land a moment later.
    """
    return read.version > swap.version
