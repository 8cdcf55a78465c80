"""The Iceberg warehouse: its catalog and its topics' tables. What a table holds: `topic_table`. Where all lives: `settings`.

<warehouse>/catalog.db                           the catalog and the leases, unless a setting names another database
<warehouse>/tables/<topic>/data/<run>/           a run's Parquet files: visible only once a commit names them
<warehouse>/tables/<topic>/metadata/             Iceberg's own
<warehouse>/loads/<topic>/                       each load's record, and what the count has reported
<warehouse>/proofs/                              the table `headrace.proofs`
"""

import re
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyiceberg.transforms import HourTransform
from sqlalchemy.exc import IntegrityError

from ..errors import NoSuchTable, WarehouseError
from ..source.columns import HOUR_FIELD, SYSTEM_COLUMNS
from .catalogs import NAMESPACE, make_namespace, metadata_places, open_catalog, reaching_catalog
from .leases import Lease, Leases
from .proofs import ROWS_AT_ONCE, Proofs
from .proofs import SCHEMA as PROOFS_SCHEMA
from .settings import WarehouseSettings, sqlite_file
from .store import StorePath, reaching_store, uri_of
from .topic_table import TopicTable

PROOFS = ("headrace", "proofs")

_PROPERTIES = {
    "commit.retry.num-retries": "0",
    # A branch never expires: every program that expires snapshots keeps both heads, and the files that they name.
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
    """The catalog and the files. Opening it creates what is missing."""

    def __init__(self, where: WarehouseSettings | Path) -> None:
        """`where`: a folder has its catalog in it, and needs no setting."""
        self.settings = where if isinstance(where, WarehouseSettings) else WarehouseSettings.of_folder(where)
        self.folder: StorePath = self.settings.folder
        self.leases = Leases(self.settings.leases)
        self._opened: Catalog | None = None
        self._opening = threading.Lock()

    @property
    def home(self) -> Path | None:
        """The folder of the failpoints."""
        return self.settings.home

    def _catalog(self) -> Catalog:
        with self._opening:
            if self._opened is None:
                self._opened = open_catalog(self.settings)
            return self._opened

    def locked(self, name: str) -> AbstractContextManager[Lease]:
        """Hold `name` among all processes of all machines. Raises WarehouseError if another one holds it for too long."""
        return self.leases.held(name)

    def topics(self) -> list[str]:
        """Return the names of the tables, sorted; empty if there is no warehouse yet."""
        file = sqlite_file(self.settings.catalog)
        if file is not None and not file.exists():
            return []
        with reaching_catalog():
            return sorted(name[-1] for name in self._catalog().list_tables(NAMESPACE))

    def places(self) -> Mapping[str, str] | None:
        """Return where each topic's table has its metadata now, in one query. None: a REST catalog does not list it."""
        file = sqlite_file(self.settings.catalog)
        if file is not None and not file.exists():
            return {}
        with reaching_catalog():
            return metadata_places(self._catalog())

    def table(self, topic: str) -> TopicTable | None:
        """Return the topic's table as it is now, or None. Raises WarehouseError, CatalogUnreachable, StoreUnreachable."""
        _check_name(topic)
        table = self._load((NAMESPACE, topic))
        if table is None:
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
            s3=self.settings.s3,
            reload=lambda: self.existing_table(topic).iceberg,
        )

    def proofs_table(self) -> TopicTable | None:
        """Return the table `headrace.proofs` for its own upkeep: its snapshots and files; None if there is none."""
        table = self._load(PROOFS)
        if table is None:
            return None
        return TopicTable(
            ".".join(PROOFS),
            table,
            data_folder=self.folder / "proofs" / "data",
            records_folder=self.folder / "proofs-upkeep",
            s3=self.settings.s3,
            reload=lambda: self._catalog().load_table(PROOFS),
        )

    def _load(self, name: tuple[str, str]) -> Table | None:
        with reaching_catalog(), reaching_store(self.folder):
            try:
                return self._catalog().load_table(name)
            except NoSuchTableError:
                return None

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
        with reaching_catalog(), reaching_store(self.folder):
            try:
                with self._catalog().create_table_transaction(
                    (NAMESPACE, topic),
                    schema=schema,
                    location=uri_of(self.folder / "tables" / topic),
                    properties=_PROPERTIES,
                ) as transaction:
                    with transaction.update_spec() as spec:
                        spec.add_field("_timestamp", HourTransform(), HOUR_FIELD)
                    # pyiceberg makes no branch in a table without a snapshot: `main` begins with an empty one.
                    with transaction.update_snapshot().fast_append():
                        pass
            except (TableAlreadyExistsError, CommitFailedException, IntegrityError):
                pass  # another load created it at the same moment
        return self.existing_table(topic)

    def proofs(self, topic: str) -> Proofs:
        """Return the topic's proofs; the table `headrace.proofs` is created if there is none."""
        folder = self.folder / "proofs"
        table = self._load(PROOFS)
        if table is None:
            with reaching_catalog(), reaching_store(self.folder):
                make_namespace(self._catalog(), PROOFS[0])
                try:
                    table = self._catalog().create_table(
                        PROOFS, schema=PROOFS_SCHEMA, location=uri_of(folder), properties=ROWS_AT_ONCE
                    )
                except (TableAlreadyExistsError, IntegrityError):
                    table = self._catalog().load_table(PROOFS)
        return Proofs(table, topic, folder=folder)

    def data_folder(self, topic: str) -> StorePath:
        """Return the folder of the topic's runs, whether or not the table exists."""
        _check_name(topic)
        return self.folder / "tables" / topic / "data"


def _check_name(topic: str) -> None:
    if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        raise WarehouseError(f"{topic!r} is not a topic's name: letters, digits, '.', '_' and '-' make one, at most 249")
