"""The streams of one member together: takes partitions from the group and passes each to the stream where it is placed.

Every stream keeps a queue, positions and notices of its own (`StreamState`), so a slow one holds up no other.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence

from ...errors import HeadraceError
from ..consumer.stream_state import StreamState
from ..fetch.fetched import TopicPartition
from .placement import placed


class StreamSet:
    """A `PartitionHolder` over several streams. Every method may be called from any thread."""

    def __init__(self, streams: Mapping[str, Sequence[StreamState]]) -> None:
        """`streams` is topic to its streams."""
        self._states: list[StreamState] = []
        self._of_topic: dict[str, list[int]] = {}
        for topic, states in streams.items():
            self._of_topic[topic] = list(range(len(self._states), len(self._states) + len(states)))
            self._states += states
        self._lock = threading.Lock()
        self._placed: dict[TopicPartition, int] = {}

    def place(self, own: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = placed(own, self._of_topic)
        with self._lock:
            self._placed = found
        return found

    def assign(self, starts: Mapping[TopicPartition, int], *, committed: Mapping[TopicPartition, int], generation: int) -> None:
        with self._lock:
            where = dict(self._placed)
        for number, state in enumerate(self._states):
            mine = {name: at for name, at in starts.items() if where.get(name) == number}
            if mine:
                state.assign(mine, committed=committed, generation=generation)

    def revoke(self, partitions: Collection[TopicPartition], *, timeout_ms: int) -> bool:
        # All are notified before the first wait: the application has its time once, for any number of streams.
        deadline = time.monotonic() + timeout_ms / 1000
        told = [(state, state.announce_revocation(mine)) for state, mine in self._held(partitions)]
        in_time = [state.await_revocation(notice, (deadline - time.monotonic()) * 1000) for state, notice in told]
        return all(in_time)

    def lose(self, partitions: Collection[TopicPartition] | None) -> None:
        for state in self._states:
            state.lose(None if partitions is None else [name for name in partitions if name in state.positions()])

    def lose_all(self) -> None:
        self.lose(None)

    def await_quiet(self, timeout_ms: int) -> bool:
        deadline = time.monotonic() + timeout_ms / 1000
        return all([state.await_quiet(max(0, int((deadline - time.monotonic()) * 1000))) for state in self._states])

    def waits_for(self, what: str, error: HeadraceError | None) -> None:
        for state in self._states:
            state.waits_for(what, error)

    def fail(self, error: Exception) -> None:
        for state in self._states:
            state.fail(error)

    def _held(self, partitions: Collection[TopicPartition]) -> list[tuple[StreamState, list[TopicPartition]]]:
        found = []
        for state in self._states:
            owned = state.positions()
            mine = [name for name in partitions if name in owned]
            if mine:
                found.append((state, mine))
        return found
