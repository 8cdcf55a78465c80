"""Builds an sdist, builds the wheel from it, and tries the wheel in an empty environment: `make packages`, which is `python -m
tests.packages [FOLDER]`. In both, the tree's symbolic links (`src/headrace/`) must be files. Where there is a C compiler, the
wheel of `native/` is built and tried, too.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from headrace.local.environment import lacking_for_native

TOP = Path(__file__).resolve().parents[1]
BUILD_SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
TRY_SDK = """
import importlib.util
from headrace.sdk import EventLogger, event_schema
for extra in ("kazoo", "starlette", "pyspark", "airflow", "duckdb"):
    assert importlib.util.find_spec(extra) is None, f"{extra} came along: the SDK is to be light"
event_schema("Click", [{"name": "path", "type": "string"}])
"""
TRY_NATIVE = """
from headrace.runtime.native import native
from headrace.sdk import EventLogger
assert native is not None, "headrace_native is installed and was not found"
"""
_QUIET = ("--quiet", "--disable-pip-version-check", "--no-deps")
_PIP_WHEEL = (sys.executable, "-m", "pip", "wheel", *_QUIET, "--no-build-isolation")
EXPECTED = (
    "headrace/py.typed",
    "headrace/errors.py",
    "headrace/sdk/__init__.py",
    "headrace/broker/log/partition_log.py",
)


class BadPackage(Exception):
    """A built package must not be published; the message names the fault."""


def build_sdist(folder: Path) -> Path:
    """Return the sdist, built from this tree into `folder`."""
    _run([sys.executable, "-c", BUILD_SDIST, str(folder)], cwd=TOP)
    return _the_only(folder, "*.tar.gz")


def build_wheel(source: Path, folder: Path) -> Path:
    """Return the wheel, built from a tree or an sdist into `folder`, with the installed setuptools."""
    _run([*_PIP_WHEEL, "--wheel-dir", str(folder), str(source)], cwd=folder)
    return _the_only(folder, "headrace-*.whl")


def check_sdist(sdist: Path) -> None:
    """Raise BadPackage for a symbolic link, which points nowhere after unpacking elsewhere, and for missing files."""
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    links = [member.name for member in members if member.issym() or member.islnk()]
    if links:
        raise BadPackage(f"{sdist.name} holds links: {', '.join(links[:5])}")
    names = {member.name.partition("/")[2] for member in members}
    _all_there(sdist, names, {f"src/{name}" for name in _sources().union(EXPECTED)} | {"LICENSE", "README.md", "pyproject.toml"})


def check_wheel(wheel: Path) -> None:
    """Raise BadPackage for a file of the tree that is not in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    _all_there(wheel, names, _sources().union(EXPECTED))


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel, with the few packages it requires, into its own environment, and use the SDK and the command."""
    python = folder / "bin" / "python"
    _run([sys.executable, "-m", "venv", str(folder)], cwd=wheel.parent)
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], cwd=wheel.parent)
    _run([str(python), "-I", "-c", TRY_SDK], cwd=wheel.parent)
    said = _run([str(folder / "bin" / "headrace"), "--version"], cwd=wheel.parent)
    if said.split()[:2] != wheel.name.split("-")[:2]:
        raise BadPackage(f"`headrace --version` says {said.strip()!r}, the wheel is {wheel.name}")


def build_native(folder: Path) -> Path:
    """Return the wheel of `native/`, built into `folder`; one for all CPythons from 3.11 on. Raises BadPackage."""
    with tempfile.TemporaryDirectory(prefix="headrace-native-") as scratch:
        source = Path(scratch) / "native"
        shutil.copytree(TOP / "native", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
        for old in folder.glob("headrace_native-*.whl"):
            old.unlink()
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-build-isolation",
        ]
        _run([*pip, "--wheel-dir", str(folder), str(source)], cwd=folder)
    wheel = _the_only(folder, "headrace_native-*.whl")
    if "-cp311-abi3-" not in wheel.name:
        raise BadPackage(f"{wheel.name} is not built against the stable ABI")
    return wheel


def try_native(wheel: Path, folder: Path) -> None:
    """Install the wheel of `native/` beside headrace, and see that the SDK finds it."""
    python = folder / "bin" / "python"
    _run([str(python), "-m", "pip", "install", *_QUIET, str(wheel)], cwd=wheel.parent)
    _run([str(python), "-I", "-c", TRY_NATIVE], cwd=wheel.parent)


def _sources() -> set[str]:
    """The names, below the package `headrace`, of all files of the tree that a package must hold: modules, pages, settings."""
    rooms = ((TOP / "platform", "headrace"), (TOP / "spark", "headrace/spark"))
    files = ((path, f"{name}/{path.relative_to(room)}") for room, name in rooms for path in room.rglob("*"))
    return {name for path, name in files if path.is_file() and "__pycache__" not in path.parts}


def _all_there(package: Path, names: set[str], expected: set[str]) -> None:
    missing = sorted(expected - names)
    if missing:
        raise BadPackage(f"{package.name} lacks {len(missing)} files: {', '.join(missing[:5])}")


def _the_only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def _run(command: Sequence[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise BadPackage(f"{' '.join(command[:5])} … ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def main() -> int:
    """Build into FOLDER (default `dist`, emptied first), check, try. Return 0, or 1 with the reason."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "dist").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("headrace-*.tar.gz"), *folder.glob("headrace-*.whl")):
        old.unlink()
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-packages-") as scratch:
            sdist = build_sdist(folder)
            check_sdist(sdist)
            wheel = build_wheel(sdist, folder)
            check_wheel(wheel)
            from_tree = Path(scratch) / "from-tree"
            from_tree.mkdir()
            check_wheel(build_wheel(TOP, from_tree))  # as `pip install .` does
            try_wheel(wheel, Path(scratch) / "bare")
            lacking = lacking_for_native()
            if lacking is None:
                native = build_native(folder)
                try_native(native, Path(scratch) / "bare")
    except BadPackage as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    if lacking is None:
        print(f"packages: {native.name} is there, too, and headrace.sdk finds it")
    else:
        print(f"packages: headrace_native was left out: {lacking}")
    print(f"packages: {sdist.name} and {wheel.name} are in {folder}; the wheel alone gives headrace.sdk and `headrace --version`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
