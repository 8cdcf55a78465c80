"""A real PostgreSQL server for tests, from Debian's package, on a free loopback port; each `new_database` is empty.

PostgreSQL refuses to run as root. Root runs it as the user that the package makes.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from functools import cache
from itertools import count
from pathlib import Path

from tests.support.processes import eventually, free_port

USER = "headrace"
_PACKAGE_USER = "postgres"


@cache
def programs() -> Path | None:
    """Return the folder of the newest server's programs, None where there is none that we may run."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: -float(one.parent.name))
    if os.geteuid() == 0 and not any(one.pw_name == _PACKAGE_USER for one in pwd.getpwall()):
        return None
    return next((one for one in folders if (one / "initdb").exists() and (one / "postgres").exists()), None)


class PostgresqlServer:
    """The server. `start` returns when it accepts connections; `url(database)` is the same over restarts."""

    def __init__(self) -> None:
        folder = programs()
        assert folder is not None
        self._programs = folder
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-postgresql-"))
        self._as_user = {"user": _PACKAGE_USER, "group": _PACKAGE_USER, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as_user:
            shutil.chown(self._folder, _PACKAGE_USER, _PACKAGE_USER)
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
