"""Finds the jars of Apache Kafka: those of `KAFKA_HOME`, else one version from Maven Central, kept in a cache outside the home.

Fetches by Maven coordinates only, through the user's own Maven, so its settings and mirrors hold. Starts nothing of Kafka's.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import HeadraceError

VERSION = "4.3.1"
"""The newest version whose jars were complete on Maven Central when this was written (4.4.0 lacked kafka-tools-api)."""
COORDINATES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
FETCH_MS = 600_000
_COMPLETE = "complete"
"""Written last: a folder without it is one whose fetch was interrupted."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class KafkaUnavailable(HeadraceError):
    """Apache Kafka cannot be run on this machine; the message says what to install or to name."""


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of this version's jars: in `$HEADRACE_BENCH_CACHE`, else in `headrace-bench` of the user's cache."""
    environment = os.environ if environment is None else environment
    named = environment.get("HEADRACE_BENCH_CACHE")
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(named) if named else caches / "headrace-bench") / f"kafka-{VERSION}"


def found(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder with Kafka's jars, or None if they must be fetched first. Raises KafkaUnavailable for a wrong
    `KAFKA_HOME`.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("KAFKA_HOME")
    if home:
        folder = Path(home) / "libs"
        if not any(folder.glob("kafka_2.*.jar")):
            raise KafkaUnavailable(
                f"KAFKA_HOME={home}: there is no kafka_2.*.jar in {folder}; name the folder into which Apache Kafka was "
                "unpacked, or unset it to have the jars fetched with Maven"
            )
        return folder
    folder = cache_folder(environment)
    return folder if (folder / _COMPLETE).exists() else None


def fetched(say: Callable[[str], None] = lambda line: None) -> Path:
    """Return the folder with Kafka's jars; fetch them once, about 55 MB. Raises KafkaUnavailable."""
    here = found()
    if here is not None:
        return here
    folder = cache_folder()
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(_no_maven(folder))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several platforms may start at once
        if not (folder / _COMPLETE).exists():
            say(f"fetching Apache Kafka {VERSION} with Maven (once, 55 MB) into {folder}")
            _fetch(maven, folder)
    return folder


def _fetch(maven: str, folder: Path) -> None:
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*one) for one in COORDINATES)))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_MS / 1000, check=False)
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailable(f"Maven did not fetch Apache Kafka {VERSION} within {FETCH_MS // 1000} s: try again") from error
    if done.returncode:
        raise KafkaUnavailable(
            f"Maven could not fetch Apache Kafka {VERSION}: {(done.stdout + done.stderr).strip()[-1_000:]}; "
            "without a way to Maven Central unpack Apache Kafka somewhere and name that folder with KAFKA_HOME"
        )
    (folder / _COMPLETE).touch()


def _no_maven(folder: Path) -> str:
    return (
        f"Apache Kafka {VERSION} is not in {folder}, and there is no Maven to fetch it: sudo apt install maven, "
        "or name the folder of an unpacked Apache Kafka with KAFKA_HOME"
    )
