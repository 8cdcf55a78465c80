"""Jars of Maven Central in the bench's cache. What fetches them is the platform's (`headrace.local.kafka.maven`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.local.kafka import maven

from ..harness.cache import cache_folder
from ..harness.unavailable import Unavailable, program_path


class Artifact(NamedTuple):
    """A jar's coordinates."""

    group: str
    name: str
    version: str


def jars(name: str, artifacts: Sequence[Artifact], *, what: str) -> Path:
    """Return the cache's folder `name` with the jars of these artifacts and of all they need. Raises Unavailable."""
    try:
        return maven.fetched(cache_folder() / name, artifacts, what=what)
    except maven.NotFetched as error:
        raise Unavailable(str(error)) from error


def java() -> str:
    """Return the java program. Raises Unavailable."""
    return program_path("java", otherwise="Java: there is no `java` on the path (17 or newer is needed)")
