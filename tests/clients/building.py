"""Builds the programs in other languages, outside the repository."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent


def run(command: Sequence[str], *, within_s: int = 900, folder: Path = HERE, environment: Mapping[str, str] | None = None) -> str:
    """Run a command to its end, and return what it printed; fail with its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    return done.stdout


def maven(build_folder: Path, *words: str) -> None:
    run(["mvn", "-q", "-B", "-f", str(HERE / "java" / "pom.xml"), f"-Dbuild.folder={build_folder}", *words])


def java() -> str:
    return shutil.which("java") or "java"
