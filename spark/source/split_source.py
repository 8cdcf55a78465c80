"""Where splits are read from: addresses only, so that it travels to the tasks. Each task opens what it needs and closes it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from ...client.connection.cluster import Cluster
from ...client.security.chosen import named_for
from ...runtime.clock import SystemClock
from ...schema_registry.client.registry_client import RegistryClient
from ...schema_registry.errors import UnknownSchemaId
from .cluster_batches import cluster_batches
from .cluster_quarantine import ClusterQuarantine
from .decoding import BlockDecoder
from .offset_ranges import OffsetRange
from .split_reader import SplitReader
from .task_reports import TaskReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSource:
    """One topic on one cluster, with the registry of its writers' schemas."""

    bootstrap: str
    topic: str
    registry: str
    quarantine: str | None
    """Bootstrap of the cluster with `<topic>.quarantine`; None: a record that is not a row is an error."""
    client_config: str | None
    """Paths of the properties files (TLS, SASL) where the task runs, `:` between; None: `HEADRACE_CLIENT_CONFIG`."""
    cluster: str
    """Name of the source cluster in the quarantine's origins."""

    def rows(
        self, split: OffsetRange, target: pa.Schema, *, on_report: Callable[[TaskReport], None], wants_digest: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split as batches of the schema `target`; then hand over the report, its quarantine acknowledged."""
        security = named_for(self.bootstrap, self.client_config)
        cluster = Cluster(self.bootstrap, client_id="headrace-load", security=security)
        quarantine = ClusterQuarantine(self.quarantine, self.client_config) if self.quarantine else None
        try:
            yield from SplitReader(
                topic=self.topic,
                cluster=self.cluster,
                split=split,
                batches=cluster_batches(cluster, self.topic),
                decoder=BlockDecoder(target, split.partition, schema_of(RegistryClient(self.registry)), is_checked=True),
                quarantine=quarantine,
                on_report=on_report,
                clock=SystemClock(),
                wants_digest=wants_digest,
            ).rows()
        finally:
            if quarantine is not None:
                quarantine.close()
            cluster.close()


def schema_of(registry: RegistryClient) -> Callable[[int], str | None]:
    """Return the registry as the decoder asks it: None for an id that it does not know."""

    def schema_of(schema_id: int) -> str | None:
        try:
            return registry.schema(schema_id)
        except UnknownSchemaId:
            return None

    return schema_of
