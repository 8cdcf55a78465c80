"""Writes records that cannot become a row to `<topic>.quarantine` on the live cluster."""

from ...client.connection.cluster import Cluster
from ...client.producer.producer import Producer
from ...client.quarantine import send_quarantined
from ...client.security.chosen import named_for
from ...wire.quarantine_record import QuarantineRecord

FLUSH_MS = 120_000


class ClusterQuarantine:
    """Writes quarantine records to a cluster. Connects at the first record."""

    def __init__(self, bootstrap: str, client_config: str | None = None) -> None:
        self._bootstrap = bootstrap
        self._client_config = client_config
        self._cluster: Cluster | None = None
        self._producer: Producer | None = None

    def put(self, record: QuarantineRecord) -> None:
        """Send a record; wait while the producer's buffer is full."""
        if self._producer is None:
            security = named_for(self._bootstrap, self._client_config)
            self._cluster = Cluster(self._bootstrap, client_id="headrace-load", security=security)
            self._producer = Producer(self._cluster)
        send_quarantined(self._producer, record)

    def flush(self) -> None:
        """Return when every record is acknowledged. Otherwise raise the client's error: then the load must not commit."""
        if self._producer is not None:
            self._producer.flush(FLUSH_MS)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(0)
        if self._cluster is not None:
            self._cluster.close()
