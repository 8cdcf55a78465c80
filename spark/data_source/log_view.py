"""A topic's partitions, ends and times, as the driver asks for them. A cluster that does not answer is waited for, bounded."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ...client.cluster_kind import counts_records
from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import log_offsets
from ...client.security.chosen import named_for
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.logs import get_library_logger
from ..source.log_density import bytes_per_record
from ..source.log_ends import LogEnds, ends_now
from ..source.offset_ranges import OffsetRange

log = get_library_logger(__name__)
T = TypeVar("T")


class LogView:
    """Asks one cluster about one topic. Close it."""

    def __init__(self, bootstrap: str, topic: str, client_config: str | None, *, wait_ms: int) -> None:
        self.topic = topic
        self._cluster = Cluster(bootstrap, client_id="headrace-source", security=named_for(bootstrap, client_config))
        self._wait_ms = wait_ms
        self._counts_records: bool | None = None

    def ends(self) -> LogEnds:
        """Return where each partition begins and ends now; partitions that were added are among them. Raises ClientError."""
        return self._patiently(self._ends)

    def _ends(self) -> LogEnds:
        self._cluster.refresh([self.topic])
        return ends_now(self._cluster, self.topic)

    def at_times(self, times_ms: Mapping[int, int]) -> dict[int, int]:
        """Return each partition's first offset with a record at its time or later; the log's end where there is none."""
        wanted = {TopicPartition(self.topic, partition): at_ms for partition, at_ms in times_ms.items()}
        found = self._patiently(lambda: log_offsets(self._cluster, wanted))
        return {name.partition: offset for name, offset in found.items()}

    def topic_id(self) -> str:
        """Return the topic's id; empty if the cluster has none."""
        return self._patiently(lambda: self._cluster.topic_ids([self.topic])).get(self.topic, "")

    def bytes_per_offset(self, ranges: Sequence[OffsetRange]) -> int:
        """Return 1 where offsets are positions in bytes; else about the bytes of a record."""
        if self._counts_records is None:
            self._counts_records = self._patiently(lambda: counts_records(self._cluster))
        if not self._counts_records:
            return 1
        return self._patiently(lambda: bytes_per_record(self._cluster, self.topic, ranges))

    def close(self) -> None:
        self._cluster.close()

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Return the answer; ask again after an error that may pass, for `wait_ms`."""
        until, attempt = time.monotonic() + self._wait_ms / 1000, 0
        while True:
            try:
                return ask()
            except HeadraceError as error:
                if not error.retriable or time.monotonic() > until:
                    raise
                if attempt == 0:
                    log.warning("cluster_is_waited_for", topic=self.topic, reason=str(error))
                self._cluster.forget(self.topic)
                time.sleep(Backoff().wait_ms(attempt) / 1000)
                attempt += 1
