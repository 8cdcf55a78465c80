"""Reads where the source's partitions begin and end, beside the copying. While the forwarder waits for a destination that does
not answer, it does not learn that the source grows.

Has its own thread and connection; the rest of the mirror only reads the last result.
"""

import threading
from collections.abc import Mapping

from ..client.connection.cluster import Cluster
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ..errors import HeadraceError
from ..runtime.logs import get_logger
from .topics.naming import Naming

log = get_logger(__name__)

EVERY_MS = 2_000
REQUEST_TIMEOUT_MS = 5_000
STOP_MS = 1_000


class SourceEnds:
    """The last known ends of the source's partitions. Any thread may read `ends` and `trouble`."""

    def __init__(self, bootstrap: str, naming: Naming | None = None, *, every_ms: int = EVERY_MS) -> None:
        self._cluster = Cluster(bootstrap, client_id="headrace-mirror-ends", request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._is_wanted = (naming or Naming()).is_wanted
        self._every_ms = every_ms
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-source-ends", daemon=True)
        self.ends: Mapping[TopicPartition, tuple[int, int]] = {}
        """(start, end) by partition."""
        self.trouble: str | None = None
        """Why the source cannot be asked now."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._cluster.close()
        if self._thread.ident is not None:
            self._thread.join(STOP_MS / 1000)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self.ends = self._ask()
                self.trouble = None
            except HeadraceError as error:
                self.trouble = str(error)
            except Exception as error:
                # A fault of ours here must not look like a source that does not grow.
                log.error("source_ends_failed", exc_info=True)
                self.trouble = f"our own fault: {error!r}"
            self._is_stopping.wait(self._every_ms / 1000)

    def _ask(self) -> dict[TopicPartition, tuple[int, int]]:
        names = [
            TopicPartition(topic, partition)
            for topic in self._cluster.topics()
            if self._is_wanted(topic)
            for partition in self._cluster.partitions(topic)
        ]
        starts = log_offsets(self._cluster, dict.fromkeys(names, EARLIEST)) if names else {}
        ends = log_offsets(self._cluster, dict.fromkeys(names, LATEST)) if names else {}
        return {name: (starts[name], ends[name]) for name in names}
