"""The agent's settings: a TOML file, every fault of it named at once. docs/AGENT.md shows one."""

import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..client.connection.cluster import parse_bootstrap
from ..client.errors import ClientError
from ..runtime.layout import LOOPBACK
from ..wire.batch.compression import Codec
from ..wire.topic_name import fault_of as topic_fault
from .errors import SettingsRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalsSettings:
    """`[journals]`: ship the journals below a folder."""

    root: str
    """Every folder below it with a `journal.json` is a journal."""
    topics: tuple[str, ...] = ()
    """Enrolled before a journal of theirs is found: an application that has never run here is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """One agent's settings. Times in ms, sizes in bytes."""

    name: str
    """Names the agent in the audit, with the host; another agent of this host has another."""
    state: str
    """The folder of `agent.sqlite`: positions, batches under way, reports. Losing it is sending twice what the sources hold."""
    brokers: str = f"{LOOPBACK}:9092"
    """The live cluster, `host:port[,host:port…]`."""
    client_config: str | None = None
    """The properties file with TLS and SASL for `brokers`; None: what HEADRACE_CLIENT_CONFIG names, else in the clear."""
    registry: str = f"http://{LOOPBACK}:8081"
    host: str = field(default_factory=socket.gethostname)
    """Names this machine in the audit."""
    metrics_port: int = 0
    """/metrics, /healthz and /readyz; 0: they are not served."""
    metrics_host: str = LOOPBACK
    metrics_token_file: str | None = None
    """Its first line is wanted as bearer token by /metrics and /status; needed where others than this machine reach
    `metrics_host`.
    """
    codec: Codec = Codec.NONE
    batch_bytes: int = 512 << 10
    """The size of a batch before it is compressed; well below the topics' `max.message.bytes`."""
    chunk_bytes: int = 1 << 20
    """Read from a source at once, then another has its turn."""
    buffer_bytes: int = 64 << 20
    """Read and not acknowledged, all sources together."""
    most_sources: int = 20_000
    scan_every_ms: int = 1_000
    """How soon a new journal or file is found."""
    stop_ms: int = 10_000
    """How long a stop waits for answers and reports under way."""
    status_file: Path | None = None
    journals: JournalsSettings | None = None
    sections: tuple[Mapping[str, Any], ...] = ()
    """The `[[tail]]` sections, as their room reads them."""
    directories: tuple[Mapping[str, Any], ...] = ()
    """The `[[directory]]` sections."""
    syslogs: tuple[Mapping[str, Any], ...] = ()
    """The `[[syslog]]` sections."""
    https: tuple[Mapping[str, Any], ...] = ()
    """The `[[http]]` sections."""

    @property
    def instance(self) -> str:
        """Return the name of the enrolment's run."""
        return f"{self.host}/agent/{self.name}"


_AT_LEAST = {
    "metrics_port": 0, "batch_bytes": 1_000, "chunk_bytes": 1_000, "buffer_bytes": 1_000, "most_sources": 1, "scan_every_ms": 10,
    "stop_ms": 0,
}  # fmt: skip


def load(path: Path, **overrides: Any) -> AgentSettings:
    """Return the settings in the file. Raises SettingsRefused with every fault."""
    try:
        words = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsRefused(str(path), [f"cannot be read: {error}"]) from error
    return from_words(words, where=str(path), **overrides)


def from_words(words: Mapping[str, Any], *, where: str = "settings", **overrides: Any) -> AgentSettings:
    """Return the settings of a parsed file: tables `agent`, `journals` and `tail`. Raises SettingsRefused with every fault."""
    faults: list[str] = [
        f"[{name}] is not a table of an agent: agent, journals, {_SECTION_NAMES}" for name in words if name not in _TABLES
    ]
    agent = words.get("agent")
    if not isinstance(agent, Mapping):
        raise SettingsRefused(where, [*faults, "it needs a table [agent] with name and state"])
    given = {**agent, **{name: value for name, value in overrides.items() if value is not None}}
    values: dict[str, Any] = {}
    known = {one.name: one for one in fields(AgentSettings) if one.name not in ("journals", *_SECTIONS.values())}
    for name, value in given.items():
        if name not in known:
            faults.append(f"[agent] {name}: there is no such setting; known are {', '.join(sorted(known))}")
        elif name == "codec":
            if not isinstance(value, str) or value.upper() not in Codec.__members__:
                faults.append(f"[agent] codec = {value!r}: give one of {', '.join(one.name.lower() for one in Codec)}")
            else:
                values[name] = Codec[value.upper()]
        elif name == "status_file":
            values[name] = Path(value)
        elif name in _AT_LEAST:
            if not isinstance(value, int) or isinstance(value, bool) or value < _AT_LEAST[name]:
                faults.append(f"[agent] {name} = {value!r}: give a whole number from {_AT_LEAST[name]} on")
            values[name] = value
        elif not isinstance(value, str) or not value:
            faults.append(f"[agent] {name} = {value!r}: give a text")
        else:
            values[name] = value
    faults += [f"[agent] {name} is missing" for name in ("name", "state") if name not in given]
    if isinstance(given.get("name"), str) and "/" in given["name"]:
        faults.append(f"[agent] name = {given['name']!r}: it is a part of the audit's instance name, without /")
    if isinstance(values.get("brokers"), str):
        try:
            parse_bootstrap(values["brokers"])
        except ClientError as error:
            faults.append(f"[agent] brokers: {error}")
    journals = _journals(words.get("journals"), faults)
    sections: dict[str, Any] = {}
    for table, name in _SECTIONS.items():
        given_sections = words.get(table, [])
        if not isinstance(given_sections, list) or not all(isinstance(one, Mapping) for one in given_sections):
            faults.append(f"{table}: write each section as [[{table}]]")
            given_sections = []
        sections[name] = tuple(given_sections)
    if journals is None and not any(sections.values()) and not faults:
        faults.append(f"nothing to ship: give [journals] or one of {_SECTION_NAMES}")
    if faults:
        raise SettingsRefused(where, faults)
    return AgentSettings(**values, journals=journals, **sections)


_SECTIONS = {"tail": "sections", "directory": "directories", "syslog": "syslogs", "http": "https"}
"""Table of the file → name in `AgentSettings`."""
_SECTION_NAMES = ", ".join(f"[[{table}]]" for table in _SECTIONS)
_TABLES = ("agent", "journals", *_SECTIONS)


def _journals(words: Any, faults: list[str]) -> JournalsSettings | None:
    if words is None:
        return None
    if not isinstance(words, Mapping):
        faults.append("journals: write a table [journals] with root and topics")
        return None
    faults += [
        f"[journals] {name}: there is no such setting; known are root, topics" for name in words if name not in ("root", "topics")
    ]
    root, topics = words.get("root"), words.get("topics", [])
    if not isinstance(root, str) or not root:
        faults.append(f"[journals] root = {root!r}: give the folder of the journals")
    if not isinstance(topics, list) or not all(isinstance(one, str) for one in topics):
        faults.append(f"[journals] topics = {topics!r}: give a list of topics")
        topics = []
    faults += [f"[journals] topics: {fault}" for one in topics if (fault := topic_fault(one)) is not None]
    return JournalsSettings(root=str(root), topics=tuple(topics))
