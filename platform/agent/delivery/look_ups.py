"""The thread that reads partitions back: a long log must not keep the other sources waiting."""

import queue
import threading
from collections.abc import Callable, Sequence

from ...client.connection.cluster import Cluster
from ...client.errors import ClientError
from ...runtime.logs import get_logger
from .batch_queue import Batch
from .read_back import look_for

log = get_logger(__name__)


class LookUps:
    """One partition at a time is read back. Every method but the thread's is for the one who asks."""

    def __init__(self, cluster: Cluster, wake: Callable[[], None]) -> None:
        self._cluster = cluster
        self._wake = wake
        self._asked: queue.SimpleQueue[tuple[tuple[str, int], Sequence[Batch]] | None] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[tuple[tuple[str, int], Sequence[Batch], object]] = queue.SimpleQueue()
        self._under_way: set[tuple[str, int]] = set()
        self._thread = threading.Thread(target=self._run, name="headrace-agent-read-back", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the cluster's connections must be closed before, or it ends with its present partition."""
        self._asked.put(None)
        self._thread.join(10)

    def ask(self, partition: tuple[str, int], batches: Sequence[Batch]) -> None:
        """Look for these batches, unless the partition is being read already."""
        if partition not in self._under_way:
            self._under_way.add(partition)
            self._asked.put((partition, batches))

    def answers(self) -> list[tuple[Sequence[Batch], object]]:
        """Return what was found since the last call: batches, and `look_for`'s answer or the ClientError."""
        found = []
        while not self._answered.empty():
            partition, batches, answer = self._answered.get()
            self._under_way.discard(partition)
            found.append((batches, answer))
        return found

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            partition, batches = asked
            wanted = [(one.row.search_from, (*one.row.earlier, one.row.numbers)) for one in batches]
            answer: object
            try:
                answer = look_for(self._cluster, *partition, wanted)
            except ClientError as error:
                answer = error
            self._answered.put((partition, batches, answer))
            self._wake()
