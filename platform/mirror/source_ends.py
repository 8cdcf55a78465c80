"""Reads where those partitions of the source begin and end that are not fetched now: not begun, stopped, paused, or all of them
while the forwarder waits for a destination that does not answer. Of the others each fetch tells it.

Has its own thread and connection; the rest of the mirror only reads the last result.
"""

import threading
import time
from collections.abc import Callable, Container, Mapping

from ..client.connection.cluster import Cluster
from ..client.connection.control_plane import Listing
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ..errors import HeadraceError
from ..runtime.logs import get_logger
from .topics.naming import Naming

log = get_logger(__name__)

EVERY_MS = 2_000
REQUEST_TIMEOUT_MS = 5_000
STOP_MS = 1_000
RESTS = 10
"""The pause after a look is at least so many times as long as the look."""


class SourceEnds:
    """The last known ends of the source's partitions. Any thread may read `ends` and `trouble`."""

    def __init__(
        self,
        bootstrap: str,
        naming: Naming | None = None,
        *,
        fetched: Callable[[], Container[TopicPartition]] = tuple,
        every_ms: int = EVERY_MS,
    ) -> None:
        """`fetched`: the partitions that are fetched now."""
        self._cluster = Cluster(bootstrap, client_id="headrace-mirror-ends", request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._is_wanted = (naming or Naming()).is_wanted
        self._fetched = fetched
        self._every_ms = every_ms
        self._names: tuple[Listing, list[TopicPartition]] | None = None
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-source-ends", daemon=True)
        self.ends: Mapping[TopicPartition, tuple[int, int]] = {}
        """(start, end) by partition, of those that are not fetched now."""
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
            began = time.monotonic()
            try:
                self.ends = self._ask()
                self.trouble = None
            except HeadraceError as error:
                self.trouble = str(error)
            except Exception as error:
                # A fault of ours here must not look like a source that does not grow.
                log.error("source_ends_failed", exc_info=True)
                self.trouble = f"our own fault: {error!r}"
            # Many partitions take long to ask about: then they are asked about more seldom.
            self._is_stopping.wait(max(self._every_ms / 1000, RESTS * (time.monotonic() - began)))

    def _ask(self) -> dict[TopicPartition, tuple[int, int]]:
        listing = self._cluster.listing()
        if self._names is None or self._names[0] is not listing:
            wanted = (topic for topic in sorted(listing.partitions) if self._is_wanted(topic))
            names = [TopicPartition(topic, one) for topic in wanted for one in listing.partitions[topic]]
            self._names = listing, names
        fetched = self._fetched()
        names = [name for name in self._names[1] if name not in fetched]
        starts = log_offsets(self._cluster, dict.fromkeys(names, EARLIEST)) if names else {}
        ends = log_offsets(self._cluster, dict.fromkeys(names, LATEST)) if names else {}
        return {name: (starts[name], ends[name]) for name in names}
