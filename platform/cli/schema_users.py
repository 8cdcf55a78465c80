"""Who would notice a changed schema, as far as the platform knows: consumer groups of the topic, columns of its table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..client.connection.cluster import Cluster
from ..client.groups.topic_readers import groups_of
from ..errors import HeadraceError
from ..runtime.layout import Layout
from ..schema_registry.client.schema_set import topic_of


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
