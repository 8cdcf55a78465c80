"""Spark's own Kafka source with `from_avro`: PySpark in an environment of its own in the bench's cache, jars of Maven Central.

Maven Central has the source for Spark 4.1.1, and not for the PySpark that ours uses: so each has its own.
"""

import fcntl
import subprocess
import sys
from pathlib import Path

from ..harness.cache import cache_folder
from ..harness.unavailable import Unavailable
from . import maven
from .maven import Artifact

VERSION = "4.1.1"
NAME = "Spark's Kafka source"
_INSTALL_S = 1_200
_COMPLETE = "complete"


def jars() -> Path:
    """Return the folder of the jars. Raises Unavailable."""
    group, scala = "org.apache.spark", "2.13"
    wanted = [Artifact(group, f"spark-sql-kafka-0-10_{scala}", VERSION), Artifact(group, f"spark-avro_{scala}", VERSION)]
    return maven.jars(f"spark-kafka-{VERSION}", wanted, what=f"{NAME} {VERSION}")


def python() -> Path:
    """Return the Python that has PySpark of the same version; installed once. Raises Unavailable."""
    folder = cache_folder() / f"pyspark-{VERSION}"
    folder.mkdir(exist_ok=True)
    with (cache_folder() / f"pyspark-{VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _COMPLETE).exists():
            _install(folder)
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    words = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        for command in ([sys.executable, "-m", "venv", str(folder)], [*words, f"pyspark=={VERSION}"]):
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=_INSTALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise Unavailable(f"{NAME}: PySpark {VERSION} cannot be installed: {str(said).strip()[-300:]}") from error
    (folder / _COMPLETE).touch()
