"""Putting aside what is no row: `<topic>.quarantine` on the live cluster.

Readers count by key, so writing one twice does no harm.
"""

from ..client.cluster import Cluster
from ..client.producer import Producer
from ..wire.quarantine_record import QuarantineRecord, quarantine_topic

FLUSH_MS = 120_000


class ClusterQuarantine:
    """Writes quarantine records to a cluster. Connects when the first one comes."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._cluster: Cluster | None = None
        self._producer: Producer | None = None

    def put(self, record: QuarantineRecord) -> None:
        """Send one; waits while the producer's buffer is full."""
        if self._producer is None:
            self._cluster = Cluster(self._bootstrap, client_id="headrace-load")
            self._producer = Producer(self._cluster)
        self._producer.send(quarantine_topic(record.topic), record.to_json(), key=record.key(), timestamp_ms=record.at_ms)

    def flush(self) -> None:
        """Return once everything put is acknowledged. Raises the client's error when it is not: the load must not commit then."""
        if self._producer is not None:
            self._producer.flush(FLUSH_MS)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(0)
        if self._cluster is not None:
            self._cluster.close()
