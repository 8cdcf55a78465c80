"""Real PostgreSQL servers for tests, on free loopback ports; each `new_database` is empty.

The tests of stores run on the versions of Debian 12 and Debian 13: one that is not installed is fetched by Maven where there is
Maven. All other tests run on the newest version that is installed.

PostgreSQL refuses to run as root. Root runs it as the user that Debian's package makes.
"""

import lzma
import os
import platform
import pwd
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from functools import cache
from itertools import count
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from bench.harness.cache import cache_folder
from headrace.local.kafka import maven
from tests.support.processes import eventually, free_port

USER = "headrace"
_PACKAGE_USER = "postgres"
_DEBIAN = Path("/usr/lib/postgresql")
_OF_MAVEN = {15: "15.13.0", 17: "17.5.0"}
"""Debian 12's and Debian 13's major version, and the release of it that is fetched."""
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64v8"}


@cache
def installed() -> dict[int, Path]:
    """Return major version → folder of the server's programs, of all that are installed; empty where we may run none."""
    if os.geteuid() == 0 and not any(one.pw_name == _PACKAGE_USER for one in pwd.getpwall()):
        return {}
    in_path = shutil.which("initdb")
    folders = [*([Path(in_path).resolve().parent] if in_path else []), *_DEBIAN.glob("*/bin")]
    return {_major(one): one for one in folders if (one / "initdb").exists() and (one / "postgres").exists()}


@cache
def versions() -> tuple[int, ...]:
    """Return the major versions that are installed or can be fetched, the newest last. Fetches nothing."""
    if not installed():
        return ()
    can_fetch = [one for one in _OF_MAVEN if platform.machine() in _MACHINES and maven.lacking(_fetched_to(one), "it") is None]
    return tuple(sorted({*installed(), *can_fetch}))


def each_version() -> list[ParameterSet]:
    """Return a parameter for each of them; without any, one that is skipped. For tests that must pass on every version."""
    needs = pytest.mark.needs("postgresql")
    return [pytest.param(one, id=f"postgresql-{one}", marks=needs) for one in versions()] or [
        pytest.param(0, id="postgresql", marks=needs)
    ]


class PostgresqlServer:
    """The server. `start` returns when it accepts connections; `url(database)` is the same over restarts."""

    def __init__(self, version: int | None = None) -> None:
        """`version`: one of `versions()`; None: the newest that is installed. Skips the test where it cannot be fetched."""
        version = max(installed()) if version is None else version
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-postgresql-"))
        self._as_user = {"user": _PACKAGE_USER, "group": _PACKAGE_USER, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as_user:
            shutil.chown(self._folder, _PACKAGE_USER, _PACKAGE_USER)
        self._programs = installed().get(version) or _unpacked(version, self._folder / "programs")
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Return the URL of a database that is empty."""
        import psycopg

        name = f"audit_{next(self._numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def start(self) -> "PostgresqlServer":
        data = self._folder / "data"
        if not data.exists():
            self._run("initdb", "-D", str(data), "-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        command = [str(self._programs / "postgres"), "-D", str(data), "-p", str(self.port), "-k", str(self._folder)]
        # No power is cut here, so that nothing need be flushed.
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, **self._as_user)  # type: ignore[call-overload]
        try:
            eventually(self._answers, what="PostgreSQL accepting connections")
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """End the server at once, as a crash would: its own processes end with it."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: every server process ends without a checkpoint
            self._process.wait(timeout=30)
            self._process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(  # type: ignore[call-overload]
            [self._programs / program, *words],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **self._as_user,
        )
        assert done.returncode == 0, done.stderr


class PostgresqlServers:
    """One server of each version that a test has asked for."""

    def __init__(self) -> None:
        self._started: dict[int, PostgresqlServer] = {}

    def of(self, version: int | None = None) -> PostgresqlServer:
        """Return the running server of this version; without one, of the newest that is installed."""
        version = max(installed()) if version is None else version
        if version not in self._started:
            self._started[version] = PostgresqlServer(version).start()
        return self._started[version]

    def remove(self) -> None:
        for server in self._started.values():
            server.remove()


def _major(programs: Path) -> int:
    if programs.parent.parent == _DEBIAN:
        return int(programs.parent.name)
    said = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    return int(said.split()[2].split(".")[0])


def _fetched_to(version: int) -> Path:
    return cache_folder() / f"postgresql-{_OF_MAVEN[version]}"


def _unpacked(version: int, to: Path) -> Path:
    """Unpack what Maven fetched, for one server: the user who runs it may not read another user's cache."""
    artifact = f"embedded-postgres-binaries-linux-{_MACHINES[platform.machine()]}"
    coordinates = ("io.zonky.test.postgres", artifact, _OF_MAVEN[version])
    try:
        folder = maven.fetched(_fetched_to(version), [coordinates], what=f"PostgreSQL {version}")
    except maven.NotFetched as error:
        pytest.skip(f"wants PostgreSQL {version}: {error}")
    with zipfile.ZipFile(folder / f"{artifact}-{_OF_MAVEN[version]}.jar") as jar:
        name = next(one for one in jar.namelist() if one.endswith(".txz"))
        with jar.open(name) as packed, lzma.open(packed) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            archive.extractall(to)
    return to / "bin"
