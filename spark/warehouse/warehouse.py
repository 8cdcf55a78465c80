"""The Iceberg warehouse: its catalog and its topics' tables. What a table holds is in `topic_table`.

<warehouse>/catalog.db                           pyiceberg's SqlCatalog on SQLite
<warehouse>/tables/<topic>/data/<run>/           a run's Parquet files: visible only once a commit names them
<warehouse>/tables/<topic>/metadata/             Iceberg's own
<warehouse>/loads/<topic>/                       each load's record, and what the count has reported
<warehouse>/proofs/                              the table `headrace.proofs`
"""

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.transforms import HourTransform

from ..errors import NoSuchTable, WarehouseError
from ..source.columns import HOUR_FIELD, SYSTEM_COLUMNS
from .proofs import SCHEMA as PROOFS_SCHEMA
from .proofs import Proofs
from .topic_table import TopicTable

NAMESPACE = "warehouse"
PROOFS = ("headrace", "proofs")

_PROPERTIES = {
    "commit.retry.num-retries": "0",
    # A branch never ages: whoever expires snapshots keeps both heads, and the files that they name.
    "history.expire.max-ref-age-ms": str((1 << 63) - 1),
    # Rows are proven file by file, so a deleted row must be a rewritten file.
    "write.delete.mode": "copy-on-write",
    "write.update.mode": "copy-on-write",
    "write.merge.mode": "copy-on-write",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Warehouse:
    """The catalog in one folder. Opening it creates what is missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @contextmanager
    def _catalog(self) -> Iterator[SqlCatalog]:
        self.folder.mkdir(parents=True, exist_ok=True)
        # Two processes that open a new catalog at once would both create its tables.
        with self.locked("catalog"):
            catalog = SqlCatalog(
                NAMESPACE,
                uri=f"sqlite:///{quote(str(self.folder / 'catalog.db'))}?timeout=30",
                warehouse=f"file://{self.folder}",
            )
            try:
                catalog.create_namespace(NAMESPACE)
            except NamespaceAlreadyExistsError:
                pass
        yield catalog

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock `name` among the processes of this machine; it is released when the process ends."""
        folder = self.folder / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def topics(self) -> list[str]:
        """Return the names of the tables, sorted; empty if there is no warehouse yet."""
        if not (self.folder / "catalog.db").exists():
            return []
        with self._catalog() as catalog:
            return sorted(name[-1] for name in catalog.list_tables(NAMESPACE))

    def table(self, topic: str) -> TopicTable | None:
        """Return the topic's table as it is now, or None."""
        _check_name(topic)
        with self._catalog() as catalog:
            try:
                table = catalog.load_table((NAMESPACE, topic))
            except NoSuchTableError:
                return None
        if "headrace.offsets" in table.properties:
            raise WarehouseError(
                f"table {topic!r} was written by an older Headrace, with all rows on its branch main: move the folder "
                f"{self.folder} away and load again"
            )
        return TopicTable(
            topic,
            table,
            data_folder=self.data_folder(topic),
            records_folder=self.folder / "loads" / topic,
            reload=lambda: self.existing_table(topic).iceberg,
        )

    def existing_table(self, topic: str) -> TopicTable:
        """Return the topic's table. Raises NoSuchTable."""
        table = self.table(topic)
        if table is None:
            raise NoSuchTable(topic, self.topics())
        return table

    def table_with(self, topic: str, event_columns: pa.Schema) -> TopicTable:
        """Return the topic's table; create it with these event columns if there is none.

        The columns of an existing table are not changed.
        """
        found = self.table(topic)
        if found is not None:
            return found
        schema = pa.schema([*event_columns, *SYSTEM_COLUMNS])
        with self._catalog() as catalog:
            try:
                with catalog.create_table_transaction(
                    (NAMESPACE, topic),
                    schema=schema,
                    location=f"file://{self.folder / 'tables' / topic}",
                    properties=_PROPERTIES,
                ) as transaction:
                    with transaction.update_spec() as spec:
                        spec.add_field("_timestamp", HourTransform(), HOUR_FIELD)
                    # pyiceberg makes no branch in a table without a snapshot: `main` begins with an empty one.
                    with transaction.update_snapshot().fast_append():
                        pass
            except (TableAlreadyExistsError, CommitFailedException):
                pass  # another load created it at the same moment
        return self.existing_table(topic)

    def proofs(self, topic: str) -> Proofs:
        """Return the topic's proofs; the table `headrace.proofs` is created if there is none."""
        with self._catalog() as catalog:
            catalog.create_namespace_if_not_exists(PROOFS[0])
            try:
                table = catalog.load_table(PROOFS)
            except NoSuchTableError:
                location = f"file://{self.folder / 'proofs'}"
                table = catalog.create_table_if_not_exists(PROOFS, schema=PROOFS_SCHEMA, location=location)
        return Proofs(table, topic)

    def data_folder(self, topic: str) -> Path:
        """Return the folder of the topic's runs, whether or not the table exists."""
        _check_name(topic)
        return self.folder / "tables" / topic / "data"


def _check_name(topic: str) -> None:
    if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        raise WarehouseError(f"{topic!r} is no topic's name: letters, digits, '.', '_' and '-' make one, at most 249")
