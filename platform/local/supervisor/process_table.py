"""The platform's processes: read from `deploy/local/processes.toml`, with this layout's addresses and folders filled in.

Knows names, order, commands and probes. Starts nothing.
"""

import os
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import HeadraceError
from ...runtime.layout import Layout

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "local"
"""The configuration that `make up` uses; part of the checkout, not of the wheel."""


class ProcessTableError(HeadraceError):
    """The process table cannot be used; the message names the entry and the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How to check that a process works. Exactly one of the four is set."""

    status_file: Path | None = None
    http: str | None = None
    tcp_port: int | None = None
    kafka_port: int | None = None
    """A broker there must say who leads: an open port is open long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One entry of the table, ready to be started."""

    name: str
    command: Sequence[str]
    after: Sequence[str] = ()
    """Names of processes that must be ready before this one starts. It is stopped before they are."""
    probe: Probe
    port: int | None = None
    stop_ms: int = 10_000
    """From SIGTERM to SIGKILL."""
    environment: Mapping[str, str] = field(default_factory=dict)


class _Ports:
    """Makes `{port[9092]}` in the table mean 9092 plus the shift."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def __getitem__(self, unshifted: int) -> str:
        return str(self._layout.port(unshifted))


def load(layout: Layout) -> list[ProcessSpec]:
    """Return the processes of the layout's engine, without optional ones that are not requested, each after those it needs.

    The table is `deploy/local/processes.toml`, or the file named by `HEADRACE_PROCESS_TABLE`. Raises ProcessTableError: no such
    file, an unknown name in `after`, a cycle, a missing field.
    """
    path = Path(os.environ.get("HEADRACE_PROCESS_TABLE") or DEPLOY / "processes.toml")
    try:
        entries = tomllib.loads(path.read_text())["process"]
    except FileNotFoundError as error:
        raise ProcessTableError(f"no process table at {path}: run from a checkout, the wheel does not hold it") from error
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise ProcessTableError(f"{path} is not a process table ([[process]] entries in TOML): {error}") from error
    mine = [entry for entry in entries if entry.get("engine", layout.engine) == layout.engine]
    mine = [entry for entry in mine if "only_with" not in entry or os.environ.get(entry["only_with"])]
    mine = [entry for entry in mine if entry.get("brokers", 1) <= layout.brokers]
    left_out = {entry.get("name") for entry in entries} - {entry.get("name") for entry in mine}
    return in_start_order([_spec(layout, entry, path, left_out) for entry in mine])


def _spec(layout: Layout, entry: Mapping[str, Any], path: Path, left_out: Collection[str]) -> ProcessSpec:
    """`left_out`: the names of entries that this platform does not have; nobody waits for them."""

    def fill(text: str) -> str:
        return text.format(
            home=layout.home,
            python=sys.executable,
            deploy=DEPLOY,
            port=_Ports(layout),
            live=layout.own_live_bootstrap,
            replicas=min(layout.brokers, 3),
            status=layout.run / f"{name}.json",
            environment=os.environ,
        )

    name = str(entry.get("name", "?"))
    try:
        port = layout.port(entry["port"]) if "port" in entry else None
        match _secured(entry, layout).get("ready", entry["ready"]):
            case "status":
                probe = Probe(status_file=layout.run / f"{name}.json")
            case "tcp":
                probe = Probe(tcp_port=port)
            case "kafka":
                probe = Probe(kafka_port=port)
            case str() as url:
                probe = Probe(http=fill(url))
            case other:
                raise ProcessTableError(
                    f"{path}: process {name!r}: ready={other!r} is neither 'status', 'tcp', 'kafka' nor a URL"
                )
        return ProcessSpec(
            name=name,
            command=[fill(word) for word in _words(entry, _secured(entry, layout))],
            after=tuple(name for name in entry.get("after", ()) if name not in left_out),
            probe=probe,
            port=port,
            stop_ms=entry.get("stop_ms", 10_000),
            environment={
                **layout.as_role(str(entry.get("role", ""))),
                **{key: fill(value) for key, value in entry.get("environment", {}).items()},
            },
        )
    except KeyError as error:
        raise ProcessTableError(f"{path}: process {name!r} lacks or misnames {error}") from error


def _secured(entry: Mapping[str, Any], layout: Layout) -> Mapping[str, Any]:
    """Return what is different where the platform is secured; empty where it is not."""
    return dict(entry.get("secured", {})) if layout.is_secured else {}


def _words(entry: Mapping[str, Any], secured: Mapping[str, Any]) -> list[str]:
    return [*secured.get("before", ()), *entry["command"], *secured.get("behind", ())]


def in_start_order(specs: Sequence[ProcessSpec]) -> list[ProcessSpec]:
    """Return `specs` sorted so that each comes after all that its `after` names; otherwise in the given order."""
    known = {spec.name for spec in specs}
    for spec in specs:
        for needed in spec.after:
            if needed not in known:
                raise ProcessTableError(f"process {spec.name!r} comes after {needed!r}, which is not in the table")
    ordered: list[ProcessSpec] = []
    placed: set[str] = set()
    while len(ordered) < len(specs):
        free = [spec for spec in specs if spec.name not in placed and placed.issuperset(spec.after)]
        if not free:
            circle = sorted(known - placed)
            raise ProcessTableError(f"these processes wait for each other: {', '.join(circle)}")
        ordered += free
        placed.update(spec.name for spec in free)
    return ordered
