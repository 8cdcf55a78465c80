"""Who would notice a changed schema, as far as the platform knows: consumer groups of the topic, columns of its table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..client.connection import control_plane
from ..client.connection.cluster import Cluster
from ..client.consumer import group_requests
from ..client.fetch.fetched import TopicPartition
from ..errors import HeadraceError
from ..runtime.layout import Layout

LANE = "schema-check"
MOST_GROUPS = 1_000


@dataclass(slots=True, kw_only=True)
class Columns:
    """What becomes of the table's columns, as sentences."""

    broken: list[str] = field(default_factory=list)
    """The load would put every record of the new schema into quarantine."""
    emptied: list[str] = field(default_factory=list)


class Users:
    """Asked for each changed subject. Without a `bootstrap` no cluster is asked, and that is said."""

    def __init__(self, bootstrap: str | None, *, asks_warehouse: bool) -> None:
        self._cluster = None if bootstrap is None else Cluster(bootstrap, client_id="headrace-cli", request_timeout_ms=10_000)
        self._asks_warehouse = asks_warehouse
        self._warehouse: Any = None

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def readers(self, subject: str) -> list[str]:
        """Return which consumer groups have read the subject's topic."""
        topic = topic_of(subject)
        if topic is None:
            return []
        if self._cluster is None:
            return [f"consumer groups of topic {topic}: not known here, no cluster was asked (--bootstrap)"]
        try:
            groups = groups_of(self._cluster, topic)
        except HeadraceError as error:
            return [f"consumer groups of topic {topic}: not known, the cluster does not answer: {error}"]
        if not groups:
            return [f"no consumer group has a position in topic {topic}"]
        return [f"consumer groups of topic {topic} that would read it: {', '.join(groups)}"]

    def columns(self, subject: str, before: Sequence[str], new: str) -> Columns:
        """Return what becomes of the table's columns when events of the schema `new` are loaded."""
        told = Columns()
        topic = topic_of(subject)
        if topic is None or not subject.endswith("-value"):
            return told
        try:
            import pyarrow as pa

            from ..spark.source.columns import SchemaRefused, union, writer_columns
        except ImportError:
            told.emptied.append("columns of the warehouse: not compared, pyarrow is not installed here (headrace[spark])")
            return told
        table = pa.schema([])
        for schema in before:
            try:
                table = union(table, writer_columns(schema).fields())
            except SchemaRefused:
                continue
        if self._asks_warehouse:
            table = self._loaded(topic, table)
        try:
            fields = writer_columns(new).fields()
            union(table, fields)
        except SchemaRefused as error:
            told.broken.append(f"table {topic} of the warehouse: every event of the new schema would go to quarantine: {error}")
            return told
        written = {one.name for one in fields}
        gone = [one.name for one in table if one.name not in written]
        if gone:
            told.emptied.append(f"table {topic} of the warehouse: columns that new events leave empty: {', '.join(gone)}")
        return told

    def _loaded(self, topic: str, known: Any) -> Any:
        from ..spark.warehouse.settings import WarehouseSettings
        from ..spark.warehouse.warehouse import Warehouse

        if self._warehouse is None:
            self._warehouse = Warehouse(WarehouseSettings.of(Layout.from_environment()))
        table = self._warehouse.table(topic)
        return known if table is None else table.event_columns


def topic_of(subject: str) -> str | None:
    """Return the topic of a subject that is named after one (Confluent's TopicNameStrategy)."""
    for suffix in ("-value", "-key"):
        if subject.endswith(suffix) and len(subject) > len(suffix):
            return subject.removesuffix(suffix)
    return None


def groups_of(cluster: Cluster, topic: str) -> list[str]:
    """Return the consumer groups that have committed a position in the topic, sorted. Raises ClientError."""
    if topic not in cluster.topics():
        return []
    names = [TopicPartition(topic, partition) for partition in cluster.partitions(topic)]
    found = []
    for group in sorted(control_plane.ask_groups(cluster.brokers(lane=LANE)))[:MOST_GROUPS]:
        if group_requests.fetch_offsets(cluster.coordinator(group, lane=LANE), group, names):
            found.append(group)
    return found
