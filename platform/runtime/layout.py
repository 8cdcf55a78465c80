"""The platform's names, addresses and folders on one machine. People and scripts rely on them. Reads only the environment, and
which engine a home was made with.

`PORT_SHIFT` moves every port by the same number; `HEADRACE_HOME` moves all state; `HEADRACE_ENGINE` names what the two clusters
are. Two platforms with different values run side by side.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ..errors import HeadraceError

LOOPBACK = "127.0.0.1"

Engine = Literal["headrace", "kafka"]
"""What the live and the offline cluster are: our own broker with ZooKeeper, or Apache Kafka without."""
ENGINES: tuple[Engine, ...] = get_args(Engine)
ENGINE_FILE = "engine"
"""In the home, from its first `up` on: the data of one engine means nothing to the other."""

BROKERS_FILE = "brokers"
"""In the home, from its first `up` on: how many brokers the live cluster has."""
SECURED_FILE = "secured"
"""In the home of a platform that was made with SECURE=1."""
MOST_BROKERS = 3
_LIVE_PORTS = (9092, 9292, 9392)
"""Of the live cluster's brokers, in the order of their ids."""

ELSEWHERE = ("HEADRACE_LIVE_BOOTSTRAP", "HEADRACE_OFFLINE_BOOTSTRAP", "HEADRACE_REGISTRY_URL", "HEADRACE_AUDIT_URL")
"""Variables that name addresses outside this machine, for commands that use a platform which others run."""

AUDIT_TOPIC = "_headrace.audit"
"""Every tier's counts, as JSON. One partition, on the live cluster; kept until checkpoints hold it."""
AUDIT_CHECKPOINT_TOPIC = "_headrace.audit.checkpoint"
"""Checkpoints of the audit's store. One partition, on the live cluster; the audit deletes of both what it needs no more."""
ACCESS_TOPIC = "_headrace.access"
"""What brokers denied, who failed to log in, who changed something, as JSON. Each broker writes to a partition that it leads."""
SCHEMAS_TOPIC = "_headrace.schemas"
"""The schema registry's records. One partition, on the live cluster, never expires."""
QUARANTINE_SUFFIX = ".quarantine"
"""The topic T + this suffix, on the live cluster, holds what could not be used of topic T, with reason and origin."""


def is_internal(topic: str) -> bool:
    """Return whether the topic belongs to the platform: not mirrored, not loaded, not audited."""
    return topic.startswith("_") or topic.endswith(QUARANTINE_SUFFIX)


SCRATCH_PREFIX = "headrace_drill_"
"""Begins the names of topics that drills make, damage and delete."""


def is_scratch(topic: str) -> bool:
    """Return whether the topic is a drill's own: audited, and shown only to who asks for it by name."""
    return topic.startswith(SCRATCH_PREFIX)


class LayoutError(HeadraceError):
    """The environment names a layout that cannot be."""


def known_engine(name: str) -> Engine:
    """Return the engine of this name. Raises LayoutError."""
    for engine in ENGINES:
        if engine == name:
            return engine
    raise LayoutError(f"HEADRACE_ENGINE={name!r} is not an engine: {' or '.join(ENGINES)}")


def engine_of(home: Path) -> str | None:
    """Return the engine that the home's data was made with, or None for a new home."""
    try:
        return (home / ENGINE_FILE).read_text().strip() or None
    except OSError:
        return None


def brokers_of(home: Path) -> int:
    """Return how many brokers the live cluster of the home has, 1 for a new home."""
    try:
        return known_brokers((home / BROKERS_FILE).read_text().strip() or "1")
    except OSError:
        return 1


def known_brokers(words: str) -> int:
    """Return the number of live brokers that these words name. Raises LayoutError."""
    if not (words.isascii() and words.isdigit() and len(words) == 1 and 1 <= int(words) <= MOST_BROKERS):
        raise LayoutError(f"HEADRACE_BROKERS={words!r} is not a whole number from 1 to {MOST_BROKERS}: unset it or give one")
    return int(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The folders and addresses of one local platform."""

    home: Path
    port_shift: int = 0
    engine: Engine = "headrace"
    brokers: int = 1
    """Of the live cluster."""
    is_secured: bool = False
    """Whether brokers and ZooKeepers speak TLS only, and they and the HTTP services serve users with their rights only."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Names of `ELSEWHERE` → addresses, of what does not run on this machine."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Layout":
        """Return the layout that `HEADRACE_HOME` (default `.headrace`) and `PORT_SHIFT` (default 0) name, and, each by default
        the home's own, `HEADRACE_ENGINE` (else `headrace`), `HEADRACE_BROKERS` (else 1) and `HEADRACE_SECURE` (else no).
        """
        environment = os.environ if environment is None else environment
        shift = environment.get("PORT_SHIFT", "") or "0"
        if not shift.lstrip("-").isdigit() or not 0 <= int(shift) <= 50_000:
            raise LayoutError(f"PORT_SHIFT={shift!r} is not a whole number from 0 to 50000: unset it or give one")
        home = Path(environment.get("HEADRACE_HOME", "") or ".headrace")
        home = home.absolute()
        named = environment.get("HEADRACE_ENGINE", "") or engine_of(home) or "headrace"
        elsewhere = tuple((name, environment[name]) for name in ELSEWHERE if environment.get(name))
        asked = environment.get("HEADRACE_BROKERS", "")
        brokers = known_brokers(asked) if asked else brokers_of(home)
        is_secured = environment.get("HEADRACE_SECURE", "") not in ("", "0") or (home / SECURED_FILE).exists()
        return cls(
            home=home,
            port_shift=int(shift),
            engine=known_engine(named),
            brokers=brokers,
            is_secured=is_secured,
            elsewhere=elsewhere,
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that give a child process this same layout."""
        words = {"HEADRACE_HOME": str(self.home), "PORT_SHIFT": str(self.port_shift), "HEADRACE_ENGINE": self.engine}
        if self.brokers > 1:
            words["HEADRACE_BROKERS"] = str(self.brokers)
        if self.is_secured:
            words["HEADRACE_SECURE"] = "1"
        return {**words, **dict(self.elsewhere)}

    def as_role(self, role: str) -> dict[str, str]:
        """Return the variables with which a process reaches this platform's brokers, ZooKeeper, registry and audit as a role.
        None where it is not secured.
        """
        files = {
            "HEADRACE_CLIENT_CONFIG": "client.properties",
            "HEADRACE_ZOOKEEPER_CONFIG": "zookeeper.properties",
            "HEADRACE_REGISTRY_LOGIN_FILE": "login",
            "HEADRACE_AUDIT_LOGIN_FILE": "login",
        }
        paths = {name: self.security / role / file for name, file in files.items()} if self.is_secured else {}
        return {name: str(path) for name, path in paths.items() if path.exists()}

    def port(self, unshifted: int) -> int:
        return unshifted + self.port_shift

    def address(self, unshifted: int) -> str:
        return f"{LOOPBACK}:{self.port(unshifted)}"

    @property
    def live_zookeeper(self) -> str:
        """Empty if the engine has no ZooKeeper: then clients coordinate through the cluster itself."""
        return "" if self.engine == "kafka" else self.address(2181)

    @property
    def offline_zookeeper(self) -> str:
        """Empty if the engine has no ZooKeeper."""
        return "" if self.engine == "kafka" else self.address(2182)

    @property
    def live_bootstrap(self) -> str:
        return dict(self.elsewhere).get("HEADRACE_LIVE_BOOTSTRAP") or self.own_live_bootstrap

    @property
    def own_live_bootstrap(self) -> str:
        """All brokers of the live cluster that this platform runs itself."""
        return ",".join(self.address(port) for port in _LIVE_PORTS[: self.brokers])

    @property
    def offline_bootstrap(self) -> str:
        return dict(self.elsewhere).get("HEADRACE_OFFLINE_BOOTSTRAP") or self.address(9192)

    @property
    def registry_url(self) -> str:
        return dict(self.elsewhere).get("HEADRACE_REGISTRY_URL") or f"http://{self.address(8081)}"

    @property
    def airflow_url(self) -> str:
        return f"http://{self.address(8080)}"

    @property
    def audit_url(self) -> str:
        return dict(self.elsewhere).get("HEADRACE_AUDIT_URL") or f"http://{self.address(8090)}"

    @property
    def console_url(self) -> str:
        return f"http://{self.address(8088)}"

    @property
    def frontend_url(self) -> str:
        """The sample frontend, while a demo runs it."""
        return f"http://{self.address(8000)}"

    @property
    def logs(self) -> Path:
        """One log file a process."""
        return self.home / "logs"

    @property
    def run(self) -> Path:
        """Status files of the processes and the supervisor's own state."""
        return self.home / "run"

    @property
    def security(self) -> Path:
        """What `headrace security init` has made for this platform."""
        return self.home / "security"

    @property
    def warehouse(self) -> Path:
        """The Iceberg warehouse, unless a setting names another place (`docs/WAREHOUSE.md`): `catalog.db` and the files."""
        return self.home / "warehouse"

    @property
    def airflow_home(self) -> Path:
        return self.home / "airflow"
