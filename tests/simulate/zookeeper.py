"""ZooKeeper as a dictionary: nodes by topic id with every version that they had, start numbers, registrations, late swaps."""

from dataclasses import dataclass, field

from headrace.broker.replication.state import State
from headrace.broker.replication.swaps import Answer, Swap


@dataclass(slots=True)
class DictionaryZooKeeper:
    history: dict[str, list[State]] = field(default_factory=dict)
    """By topic id; the last one is the node."""
    starts: dict[int, int] = field(default_factory=dict)
    registered: dict[int, int] = field(default_factory=dict)
    """Broker to the start number of its registration."""
    landed: list[tuple[str, State, State]] = field(default_factory=list)
    """Every change: topic id, before, after."""

    losses: int = 0
    """How often it lost everything. Start numbers then begin again, and tokens must not."""

    def node(self, topic_id: str) -> State | None:
        versions = self.history.get(topic_id)
        return versions[-1] if versions else None

    def start(self, broker_id: int) -> int:
        """Raise and return the start number of a broker; its registration of before goes."""
        self.starts[broker_id] = self.starts.get(broker_id, 0) + 1
        self.registered[broker_id] = self.starts[broker_id]
        return self.starts[broker_id]

    def swap(self, topic_id: str, swap: Swap) -> Answer:
        """Carry out one transaction."""
        fence = swap.fence
        if fence is not None and self.starts.get(fence.broker_id) != fence.start_number:
            return Answer.FENCED
        node = self.node(topic_id)
        if node is None or node.version != swap.version:
            return Answer.PASSED
        self.history[topic_id].append(swap.wanted)
        self.landed.append((topic_id, node, swap.wanted))
        return Answer.LANDED
