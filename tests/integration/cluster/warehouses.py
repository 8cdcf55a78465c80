"""A warehouse in an object store whose catalog is behind an unruly proxy, and the oracle that asks beside it."""

import os
import uuid
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg

from headrace.spark.warehouse.settings import sqlite
from tests.support import iceberg_oracle
from tests.support.postgresql import PostgresqlServer
from tests.support.rest_catalog import RestCatalogServer
from tests.support.unruly_proxy import HttpProxy, PostgresqlProxy
from tests.support.versitygw import S3Server
from tests.support.warehouse_worlds import World, s3_world

POINTS = ("load.before_commit", "load.after_commit")


class Catalogued:
    """`world` is the warehouse as loads see it: through `proxy`. The environment of this process names it from then on."""

    def __init__(self, folder: Path, kind: str, stack: ExitStack) -> None:
        """`kind`: `postgresql` or `rest`; servers end with the stack."""
        self._kind = kind
        self.home = folder / "home"
        self.failpoints = self.home / "failpoints"
        self.failpoints.mkdir(parents=True)
        self.s3 = S3Server(folder / "s3")
        stack.callback(self.s3.kill)
        self.s3.start()
        self._said = folder / "loads.log"
        self.said = stack.enter_context(self._said.open("ab", buffering=0))
        self.proxy: PostgresqlProxy | HttpProxy
        if kind == "postgresql":
            server = PostgresqlServer()
            stack.callback(server.remove)
            self._direct = server.start().new_database()
            self.proxy = PostgresqlProxy(server.port)
            catalog, more = self._direct.replace(f":{server.port}/", f":{self.proxy.port}/"), {}
        else:
            bucket = self.s3.new_bucket(f"rest-{uuid.uuid4().hex[:8]}")
            rest = RestCatalogServer(folder / "rest", f"s3://{bucket}/", self.s3.environment())
            stack.callback(rest.kill)
            self._direct = rest.start().uri
            self.proxy = HttpProxy(rest.port)
            catalog = f"http://127.0.0.1:{self.proxy.port}"
            more = {"HEADRACE_LEASES_URI": sqlite(self.home / "leases.db")}
        stack.callback(self.proxy.close)
        self.world: World = s3_world(self.home, self.s3, catalog, **more)
        os.environ.update(self.world.environment)

    def files(self, topic: str) -> list[Path]:
        """Return the files that the table names on the branch of the loads."""
        location = self._of_postgresql(topic) if self._kind == "postgresql" else self._of_rest(topic)
        return [] if location is None else iceberg_oracle.data_files(self.world.file(location), "loads", self.world.file)

    def rows(self, topic: str, columns: str) -> list[tuple[object, ...]]:
        return iceberg_oracle.rows(self.files(topic), columns)

    def left_over(self, topic: str) -> set[Path]:
        """Return the files that are there and that the table does not name."""
        return set(self.world.stored(topic)) - set(self.files(topic))

    def end_of_log(self) -> str:
        return self._said.read_text(errors="replace")[-6_000:]

    def _of_postgresql(self, topic: str) -> str | None:
        sql = "SELECT metadata_location FROM iceberg_tables WHERE table_name = %s AND table_namespace = 'warehouse'"
        with psycopg.connect(self._direct) as db:
            if db.execute("SELECT to_regclass('iceberg_tables')").fetchone() == (None,):
                return None
            found = db.execute(sql, [topic]).fetchone()
        return None if found is None else str(found[0])

    def _of_rest(self, topic: str) -> str | None:
        answer = httpx.get(f"{self._direct}/v1/namespaces/warehouse/tables/{topic}", timeout=60)
        return None if answer.status_code == 404 else str(answer.raise_for_status().json()["metadata-location"])
