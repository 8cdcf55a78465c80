"""PySpark in its own virtual environment and jars for it (Kafka, Avro, Iceberg), downloaded once into the bench's cache folder.

The project's own PySpark (pyproject.toml) is another version, for which Maven Central has neither a Kafka source nor Iceberg yet.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.harness.cache import cache_folder
from bench.harness.unavailable import Unavailable

VERSION = "4.1.1"
ICEBERG_VERSION = "1.12.0"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>spark-source</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_KAFKA = [("org.apache.spark", f"{name}_2.13", VERSION) for name in ("spark-sql-kafka-0-10", "spark-avro")]
_ICEBERG = [
    ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", ICEBERG_VERSION),
    ("org.xerial", "sqlite-jdbc", "3.50.3.0"),  # for Iceberg's JdbcCatalog on the catalog that pyiceberg made
]
_OF_SPARK_ITSELF = "org.scala-lang,org.slf4j,org.apache.logging.log4j,org.apache.hadoop"
"""Groups whose jars PySpark includes."""


def python() -> Path:
    """Return the Python of an environment with PySpark and nothing else. Raises Unavailable."""
    folder = cache_folder() / f"pyspark-{VERSION}"
    program = folder / "bin" / "python"
    if not (folder / "complete").exists():
        _run(f"PySpark {VERSION}", [sys.executable, "-m", "venv", "--clear", str(folder)])
        _run(f"PySpark {VERSION}", [str(program), "-m", "pip", "install", "--quiet", f"pyspark=={VERSION}"])
        (folder / "complete").touch()
    return program


def jars() -> list[Path]:
    """Return the jars of Spark's Kafka source and of its Avro functions. Raises Unavailable."""
    return _jars(f"spark-kafka-{VERSION}", f"Spark's Kafka source {VERSION}", _KAFKA)


def iceberg_jars() -> list[Path]:
    """Return the jars of Apache Iceberg for Spark and of SQLite's JDBC driver. Raises Unavailable."""
    return _jars(f"iceberg-spark-{ICEBERG_VERSION}", f"Apache Iceberg {ICEBERG_VERSION} for Spark", _ICEBERG)


def _jars(name: str, what: str, artifacts: Sequence[tuple[str, str, str]]) -> list[Path]:
    folder = cache_folder() / name
    if not (folder / "complete").exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable(f"{what}: its jars are not in {folder} and there is no Maven (mvn) to fetch them")
        folder.mkdir(parents=True, exist_ok=True)
        pom = folder / "pom.xml"
        pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*one) for one in artifacts)))
        words = [f"-DoutputDirectory={folder}", "-DincludeScope=runtime", f"-DexcludeGroupIds={_OF_SPARK_ITSELF}"]
        _run(what, [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *words])
        (folder / "complete").touch()
    return sorted(folder.glob("*.jar"))


def _run(what: str, command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_200, check=False)
    if done.returncode:
        raise Unavailable(f"{what} could not be fetched: {(done.stdout + done.stderr).strip()[-500:]}")
