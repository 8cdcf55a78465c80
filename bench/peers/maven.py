"""Jars of Maven Central: fetched once into the bench's cache."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..harness.cache import cache_folder
from ..harness.unavailable import Unavailable, program_path

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>bench</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class Artifact(NamedTuple):
    """A jar's coordinates."""

    group: str
    name: str
    version: str


def jars(name: str, artifacts: Sequence[Artifact], *, what: str) -> Path:
    """Return the cache's folder `name` with the jars of these artifacts and of all they need. Raises Unavailable."""
    folder = cache_folder() / name
    if (folder / "complete").exists():
        return folder
    maven = program_path("mvn", otherwise=f"{what}: its jars are not in {folder} and there is no Maven (mvn) to fetch them")
    folder.mkdir(parents=True, exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*one) for one in artifacts)))
    done = subprocess.run(
        [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Unavailable(f"{what}: Maven could not fetch it: {(done.stdout + done.stderr).strip()[-500:]}")
    (folder / "complete").touch()
    return folder


def java() -> str:
    """Return the java program. Raises Unavailable."""
    return program_path("java", otherwise="Java: there is no `java` on the path (17 or newer is needed)")
