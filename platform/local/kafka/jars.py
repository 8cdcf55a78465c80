"""Finds the jars of Apache Kafka: those of `KAFKA_HOME`, else one version from Maven Central, kept in a cache outside the home.

Starts nothing of Kafka's. The bench and the tests take version, coordinates and cache from here.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import HeadraceError
from . import maven

VERSION = "4.3.1"
"""The newest version whose jars were complete on Maven Central when this was written (4.4.0 lacked kafka-tools-api)."""
COORDINATES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)


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
    return folder if maven.is_complete(folder) else None


def fetched(say: Callable[[str], None] = lambda line: None) -> Path:
    """Return the folder with Kafka's jars; fetch them once, about 55 MB. Raises KafkaUnavailable."""
    here = found()
    if here is not None:
        return here
    folder = cache_folder()
    try:
        return maven.fetched(
            folder,
            COORDINATES,
            what=f"Apache Kafka {VERSION}",
            say=lambda: say(f"fetching Apache Kafka {VERSION} with Maven (once, 55 MB) into {folder}"),
        )
    except maven.NotFetched as error:
        raise KafkaUnavailable(f"{error}; or name the folder of an unpacked Apache Kafka with KAFKA_HOME") from error
