"""Apache Iceberg's own REST catalog for tests: its jar of Maven Central, with a SQLite of its own behind it."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from bench.harness.cache import cache_folder
from headrace.local.kafka import maven
from tests.support.processes import Process, accepts, eventually, free_port

VERSION = "1.9.1"
_JAR = ("org.apache.iceberg", "iceberg-open-api", VERSION)
_START_MS = 180_000


def lacking() -> str | None:
    """Return why it cannot be started here; None if its jar is there or can be fetched. Fetches nothing."""
    if shutil.which("java") is None:
        return "wants Apache Iceberg's REST catalog: there is no java"
    return maven.lacking(_folder(), "Apache Iceberg's REST catalog")


def _folder() -> Path:
    return cache_folder() / f"iceberg-rest-{VERSION}"


class RestCatalogServer:
    """The server on a free port; it reads and writes tables itself, with the same store as its clients."""

    def __init__(self, folder: Path, warehouse: str, store: Mapping[str, str]) -> None:
        """`store`: AWS's variables."""
        folder.mkdir(parents=True)
        jar = next(maven.fetched(_folder(), [_JAR], what="Apache Iceberg's REST catalog").glob("iceberg-open-api-*.jar"))
        self.port = free_port()
        words = {
            "REST_PORT": str(self.port),
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": f"jdbc:sqlite:{folder / 'rest.db'}",
            "CATALOG_JDBC_USER": "user",
            "CATALOG_JDBC_PASSWORD": "password",
            "CATALOG_WAREHOUSE": warehouse,
            "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
            "CATALOG_S3_ENDPOINT": store["AWS_ENDPOINT_URL_S3"],
            "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        }
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [str(shutil.which("java")), *flags, "-jar", str(jar)]
        self.process = Process(command, folder / "log", {**os.environ, **store, **words})

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "RestCatalogServer":
        self.process.start()
        eventually(lambda: accepts(self.port), within_ms=_START_MS, what=f"the REST catalog; {self.process.log}")
        return self

    def kill(self) -> None:
        self.process.kill()
