"""Jars of Maven Central, fetched once into a folder: the one place that calls Maven, for the platform, the bench and the tests.

Fetches by coordinates only, through the user's own Maven, so its settings and mirrors hold.
"""

import fcntl
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from ...errors import HeadraceError

FETCH_MS = 600_000
_COMPLETE = "complete"
"""Written last: a folder without it is one whose fetch was interrupted."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"

Coordinates = tuple[str, str, str]
"""Group, artifact, version."""


class NotFetched(HeadraceError):
    """The jars are not there and could not be fetched; the message says why and what to do."""


def is_complete(folder: Path) -> bool:
    """Return whether the folder holds all that was to be fetched into it."""
    return (folder / _COMPLETE).exists()


def lacking(folder: Path, what: str) -> str | None:
    """Return why the jars are not available; None if they are there or can be fetched. Fetches nothing."""
    if is_complete(folder) or shutil.which("mvn") is not None:
        return None
    return f"{what} is not in {folder}, and there is no Maven (mvn) to fetch it: sudo apt install maven"


def fetched(folder: Path, artifacts: Iterable[Coordinates], *, what: str, say: Callable[[], None] = lambda: None) -> Path:
    """Return the folder with the jars of these artifacts and of all they need; fetch them if they are not there.

    `say` is called before the fetching begins. Raises NotFetched.
    """
    if is_complete(folder):
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise NotFetched(lacking(folder, what))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several may start at once
        if not is_complete(folder):
            say()
            _fetch(maven, folder, artifacts, what)
    return folder


def _fetch(maven: str, folder: Path, artifacts: Iterable[Coordinates], what: str) -> None:
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*one) for one in artifacts)))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_MS / 1000, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotFetched(f"Maven did not fetch {what} within {FETCH_MS // 1000} s: try again") from error
    if done.returncode:
        raise NotFetched(f"Maven could not fetch {what}: {(done.stdout + done.stderr).strip()[-1_000:]}")
    (folder / _COMPLETE).touch()
