"""Who works on what, among all machines: rows of the table `headrace_leases` in a database, each good for a minute.

Its holder renews it while it lives. One that is not renewed is free: by the database's clock, no other. If its process was one of
this machine and is gone, it is free at once. A lease keeps work from being done twice; what is right is decided by the
catalog's commits alone, because a process may be frozen for longer than a minute and then continue.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool

from ...runtime.logs import get_logger
from ..errors import CatalogUnreachable, LeaseLost, WarehouseError
from .catalogs import reaching_catalog
from .settings import sqlite_file

log = get_logger(__name__)

GOOD_FOR_S = 60.0
WAIT_S = 600.0
ASK_EVERY_S = 0.1
_NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "CAST(extract(epoch from clock_timestamp()) AS DOUBLE PRECISION)",
}
_TABLE = (
    "CREATE TABLE IF NOT EXISTS headrace_leases (name VARCHAR(600) PRIMARY KEY, token VARCHAR(40) NOT NULL, "
    "holder VARCHAR(1000) NOT NULL, expires_at DOUBLE PRECISION NOT NULL)"
)
_TAKE = (
    "INSERT INTO headrace_leases (name, token, holder, expires_at) VALUES (:name, :token, :holder, {now} + :seconds) "
    "ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, expires_at = excluded.expires_at "
    "WHERE headrace_leases.expires_at < {now} OR headrace_leases.token = :dead"
)
_ADOPT = (
    "UPDATE headrace_leases SET token = :token, holder = :holder, expires_at = {now} + :seconds "
    "WHERE name = :name AND token = :dead"
)
_RENEW = "UPDATE headrace_leases SET expires_at = {now} + :seconds WHERE name = :name AND token = :token"
_RELEASE = "DELETE FROM headrace_leases WHERE name = :name AND token = :token"
_LIST = (
    "SELECT name, token, holder, expires_at < {now} AS is_over FROM headrace_leases "
    "WHERE substr(name, 1, :length) = :begin ORDER BY name"
)


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as it is in the table."""

    name: str
    token: str
    holder: str
    is_free: bool
    """It is over, or its process is gone."""


class Lease:
    """One that this process holds, renewed by a thread until `release` or `leave`."""

    def __init__(self, leases: "Leases", name: str, token: str) -> None:
        self.name = name
        self.token = token
        self._leases = leases
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease {name}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Renew it now. Raises LeaseLost if another process has taken it, CatalogUnreachable."""
        if not self._leases.renew(self.name, self.token):
            raise LeaseLost(self.name)

    def release(self) -> None:
        """Give it up: nothing is left to be done. If the database does not answer it ends unexpectedly."""
        self._end(lambda: self._leases.forget(self.name, self.token))

    def leave(self) -> None:
        """Leave it as the lease of a dead holder: another process decides what to do with its work."""
        self._end(lambda: self._leases.renew(self.name, self.token, seconds=-1.0))

    def _end(self, how: Any) -> None:
        self._is_over.set()
        self._thread.join()
        try:
            how()
        except CatalogUnreachable as error:
            log.warning("lease_not_released", lease=self.name, reason=str(error))

    def _renew(self) -> None:
        while not self._is_over.wait(self._leases.good_for_s / 3):
            try:
                if not self._leases.renew(self.name, self.token):
                    log.warning("lease_lost", lease=self.name)
                    return
            except CatalogUnreachable as error:
                log.warning("lease_not_renewed", lease=self.name, reason=str(error))


class Leases:
    """The table in one database."""

    def __init__(self, url: str, *, good_for_s: float = GOOD_FOR_S, wait_s: float = WAIT_S) -> None:
        self.good_for_s = good_for_s
        self._wait_s = wait_s
        self._url = url
        self._made: Engine | None = None

    @contextmanager
    def held(self, name: str) -> Iterator[Lease]:
        """Wait until it is free, at most ten minutes, and take it. Raises WarehouseError."""
        lease = self.take(name)
        try:
            yield lease
        finally:
            lease.release()

    def take(self, name: str) -> Lease:
        """Return it once it is ours. Raises WarehouseError if another process holds it for too long, CatalogUnreachable."""
        token = os.urandom(16).hex()
        deadline = time.monotonic() + self._wait_s
        while True:
            other = next(iter(self.listed(name)), None)
            dead = other.token if other is not None and other.is_free else ""
            if self._run(_TAKE, name=name, token=token, holder=_myself(), seconds=self.good_for_s, dead=dead):
                return Lease(self, name, token)
            if time.monotonic() >= deadline:
                who = json.loads(other.holder) if other is not None else {}
                raise WarehouseError(
                    f"{name}: the process {who.get('pid')} on {who.get('host')} has been at it for {self._wait_s:.0f} s: "
                    "wait for it, or end it, and run this again"
                )
            time.sleep(ASK_EVERY_S)

    def adopt(self, other: Held) -> Lease | None:
        """Return a free lease as ours; None if another process was quicker. Its former holder finds that it has lost it."""
        token = os.urandom(16).hex()
        words = {"name": other.name, "token": token, "holder": _myself(), "seconds": self.good_for_s, "dead": other.token}
        return Lease(self, other.name, token) if self._run(_ADOPT, **words) else None

    def free(self, prefix: str) -> list[Held]:
        """Return the leases of dead holders whose names begin with this."""
        return [one for one in self.listed(prefix, is_prefix=True) if one.is_free]

    def listed(self, name: str, *, is_prefix: bool = False) -> list[Held]:
        with reaching_catalog(), self._engine().connect() as connection:
            rows = connection.execute(text(self._words(_LIST)), {"begin": name, "length": len(name)}).all()
        mine = [one for one in rows if is_prefix or one.name == name]
        return [Held(one.name, one.token, one.holder, bool(one.is_over) or _is_gone(one.holder)) for one in mine]

    def renew(self, name: str, token: str, *, seconds: float | None = None) -> bool:
        """Return whether it was still ours."""
        seconds = self.good_for_s if seconds is None else seconds
        return self._run(_RENEW, name=name, token=token, seconds=seconds) > 0

    def forget(self, name: str, token: str) -> bool:
        return self._run(_RELEASE, name=name, token=token) > 0

    def _run(self, words: str, **values: Any) -> int:
        with reaching_catalog(), self._engine().begin() as connection:
            return int(connection.execute(text(self._words(words)), values).rowcount)

    def _words(self, words: str) -> str:
        return words.format(now=_NOW[self._engine().dialect.name])

    def _engine(self) -> Engine:
        if self._made is None:
            file = sqlite_file(self._url)
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
            engine = create_engine(self._url, poolclass=NullPool, hide_parameters=True)
            with reaching_catalog():
                _make_table(engine)
            self._made = engine
        return self._made


def _make_table(engine: Engine) -> None:
    for number in range(5):
        try:
            with engine.begin() as connection:
                connection.execute(text(_TABLE))
            return
        except (IntegrityError, ProgrammingError, OperationalError) as error:
            # PostgreSQL refuses one of two that make it at once; SQLite may be busy.
            if number == 4 or (isinstance(error, DBAPIError) and error.connection_invalidated):
                raise
            time.sleep(0.1)


def _myself() -> str:
    words = {"host": socket.gethostname(), "kernel": _kernel(), "pid": os.getpid(), "start": _start(os.getpid())}
    return json.dumps(words)


@cache
def _kernel() -> str:
    """Return what two processes share that see each other's ids: the machine since its start, and the space of process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _start(pid: int) -> str:
    """Return when the process began, in the kernel's count; empty if it is gone."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] in "ZX" else after_name[19]


def _is_gone(holder: str) -> bool:
    """Return whether the process is known to be gone: nothing is known of other machines'."""
    words = json.loads(holder)
    if not words["kernel"] or words["kernel"] != _kernel():
        return False
    return bool(_start(words["pid"]) != words["start"])
