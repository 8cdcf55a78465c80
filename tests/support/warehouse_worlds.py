"""Where a warehouse may live, with real servers; what is in it is read from the files themselves, by DuckDB."""

import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from headrace.runtime.layout import Layout
from headrace.spark.warehouse.settings import WarehouseSettings
from headrace.spark.warehouse.store import StorePath, local_path
from headrace.spark.warehouse.topic_table import LOADS
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.versitygw import S3Server


@dataclass(kw_only=True)
class World:
    """One warehouse. `environment` is all that a process needs to find it."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    s3: S3Server | None = None

    @property
    def settings(self) -> WarehouseSettings:
        return WarehouseSettings.of(Layout(home=self.home), self.environment)

    def warehouse(self) -> Warehouse:
        """Return the warehouse as another process would open it."""
        return Warehouse(self.settings)

    def file(self, path: StorePath | str) -> Path:
        """Return the file of this machine in which a file of the warehouse stands."""
        return self.s3.file_of(str(path)) if self.s3 is not None else local_path(str(path))

    def named(self, topic: str, branch: str = LOADS) -> list[Path]:
        """Return the files that a branch names."""
        table = self.warehouse().table(topic)
        return sorted(self.file(one.file_path) for one in table.files(branch)) if table is not None else []

    def stored(self, topic: str) -> list[Path]:
        """Return the Parquet files that are there."""
        return sorted(self.file(self.warehouse().data_folder(topic)).rglob("*.parquet"))

    def rows(self, topic: str, branch: str = LOADS) -> list[tuple[int, int]]:
        """Return partition and offset of every row of a branch, as DuckDB reads them from the raw files."""
        files = [str(path) for path in self.named(topic, branch)]
        if not files:
            return []
        sql = f"SELECT _topic_partition, _offset FROM read_parquet({files!r}, hive_partitioning=false) ORDER BY ALL"
        return [(int(partition), int(offset)) for partition, offset in duckdb.sql(sql).fetchall()]


def s3_world(home: Path, server: S3Server, catalog: str, **more: str) -> World:
    """Return a warehouse in a bucket of its own."""
    bucket = server.new_bucket(f"b-{uuid.uuid4().hex[:10]}")
    words = {"HEADRACE_WAREHOUSE": f"s3://{bucket}/the/warehouse", "HEADRACE_CATALOG_URI": catalog, **more}
    return World(home=home, environment={**server.environment(), **words}, s3=server)


def forget(world: World) -> None:
    """Delete the bucket."""
    if world.s3 is not None:
        shutil.rmtree(world.s3.folder / world.environment["HEADRACE_WAREHOUSE"].split("/")[2], ignore_errors=True)
