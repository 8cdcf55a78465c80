"""Apache Iceberg's own REST catalog for tests: its jar of Maven Central, with a SQLite of its own behind it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from bench.harness.cache import cache_folder
from headrace.local.kafka import maven
from tests.support.processes import Process, accepts, eventually, free_port

VERSION = "1.9.1"
_JAR = ("org.apache.iceberg", "iceberg-open-api", VERSION)
_START_MS = 180_000
_LAUNCHER = Path(__file__).with_name("LoopbackCatalog.java")
FLAGS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def lacking() -> str | None:
    """Return why it cannot be started here; None if its jar is there or can be fetched. Fetches nothing."""
    if shutil.which("javac") is None:
        return "wants Apache Iceberg's REST catalog: there is no Java compiler (Debian: default-jdk-headless)"
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
        settings = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{folder / 'rest.db'}",
            "warehouse": warehouse,
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": store["AWS_ENDPOINT_URL_S3"],
            "s3.path-style-access": "true",
        }
        command = [str(shutil.which("java")), *FLAGS, "-cp", str(jar), str(_LAUNCHER), str(self.port)]
        self.process = Process([*command, *map("=".join, settings.items())], folder / "log", store)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "RestCatalogServer":
        self.process.start()
        eventually(lambda: accepts(self.port), within_ms=_START_MS, what=f"the REST catalog; {self.process.log}")
        return self

    def kill(self) -> None:
        self.process.kill()
