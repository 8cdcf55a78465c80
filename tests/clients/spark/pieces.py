"""PySpark in its own virtual environment and its Kafka and Avro jars, downloaded once into the bench's cache folder.

The project's own PySpark (pyproject.toml) is another version, whose Kafka source is not on Maven Central yet.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.harness.cache import cache_folder
from bench.harness.unavailable import Unavailable

VERSION = "4.1.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>spark-source</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>org.apache.spark</groupId><artifactId>{}_2.13</artifactId><version>{}</version></dependency>"
_OF_SPARK_ITSELF = "org.scala-lang,org.slf4j,org.apache.logging.log4j,org.apache.hadoop"
"""Groups whose jars PySpark includes."""


def python() -> Path:
    """Return the Python of an environment with PySpark and nothing else. Raises Unavailable."""
    folder = cache_folder() / f"pyspark-{VERSION}"
    program = folder / "bin" / "python"
    if not (folder / "complete").exists():
        _run("PySpark", [sys.executable, "-m", "venv", "--clear", str(folder)])
        _run("PySpark", [str(program), "-m", "pip", "install", "--quiet", f"pyspark=={VERSION}"])
        (folder / "complete").touch()
    return program


def jars() -> list[Path]:
    """Return the jars of Spark's Kafka source and of its Avro functions. Raises Unavailable."""
    folder = cache_folder() / f"spark-kafka-{VERSION}"
    if not (folder / "complete").exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable(
                f"Spark's Kafka source {VERSION}: its jars are not in {folder} and there is no Maven (mvn) to fetch them"
            )
        folder.mkdir(parents=True, exist_ok=True)
        wanted = "".join(_DEPENDENCY.format(name, VERSION) for name in ("spark-sql-kafka-0-10", "spark-avro"))
        pom = folder / "pom.xml"
        pom.write_text(_POM.format(dependencies=wanted))
        words = [f"-DoutputDirectory={folder}", "-DincludeScope=runtime", f"-DexcludeGroupIds={_OF_SPARK_ITSELF}"]
        _run("Spark's Kafka source", [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *words])
        (folder / "complete").touch()
    return sorted(folder.glob("*.jar"))


def _run(what: str, command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1_200, check=False)
    if done.returncode:
        raise Unavailable(f"{what} {VERSION} could not be fetched: {(done.stdout + done.stderr).strip()[-500:]}")
