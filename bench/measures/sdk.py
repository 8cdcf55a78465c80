"""What logging an event costs the application: `EventLogger` in Python and with `headrace_native`, beside confluent-kafka with
its AvroSerializer and beside fastavro's writer alone. The same events, broker and registry for all. With a journal, its
agent's processor time is in 'in all'.
"""

import importlib.util
import json
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..drivers.run import Driven, drive
from ..harness.child import BenchFault
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.agent import Agent
from ..peers.headrace import Headrace
from ..peers.registry import Registry, beside_ours
from ..peers.subjects import OURS

IN_PYTHON = "EventLogger, Python"
NATIVE = "EventLogger, native"
CONFLUENT = "confluent-kafka, AvroSerializer"
FASTAVRO = "fastavro's writer alone"
JOURNAL_IN_PYTHON = "EventLogger with a journal, Python"
JOURNAL = "EventLogger with a journal, native"
DURABLE = "EventLogger with a durable journal, native"
CLIENTS: dict[str, dict[str, Any]] = {
    IN_PYTHON: {"client": "headrace"},
    NATIVE: {"client": "headrace", "is_native": True},
    JOURNAL_IN_PYTHON: {"client": "headrace", "journal": "journal"},
    JOURNAL: {"client": "headrace", "is_native": True, "journal": "journal"},
    DURABLE: {"client": "headrace", "is_native": True, "journal": "journal", "is_durable": True},
    CONFLUENT: {"client": "confluent"},
    FASTAVRO: {"client": "fastavro"},
}
TIGHT = "one after another"
PACED = "1,000 a second"
BESIDE_BURNING = "1,000 a second, two threads computing in Python"
KILLED = "1,000 a second, broker killed in the middle"
AWAY = "one after another, broker away"
_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class _Shape:
    count: int
    words: dict[str, Any]
    kills: bool = False


_SHAPES = {
    TIGHT: _Shape(100_000, {}),
    PACED: _Shape(5_000, {"per_s": _PER_S}),
    BESIDE_BURNING: _Shape(5_000, {"per_s": _PER_S, "burning_threads": 2}),
    KILLED: _Shape(5_000, {"per_s": _PER_S, "kill_at": 2_500}, kills=True),
    AWAY: _Shape(50_000, {"kill_at": 0}, kills=True),
}
"""The counts fit each client's buffer while the broker is away."""
_WITH_JOURNAL = (TIGHT, PACED, BESIDE_BURNING)
"""A broker is nothing to them."""
_DURABLE_COUNT = 500
_SHIPPED_S = 120.0
_SHAPES_OF = {FASTAVRO: (TIGHT,), JOURNAL_IN_PYTHON: _WITH_JOURNAL, JOURNAL: _WITH_JOURNAL, DURABLE: _WITH_JOURNAL}


class Sdk:
    """Processor time an event, in all and on the caller's thread, and how long a paced caller waits for one call."""

    name = "sdk"
    title = "Logging an event of ten fields from Python, 90 bytes"
    needs = frozenset({OURS})
    warm_ups = 0
    at_most = 99

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        with beside_ours(servers) as (server, registry):
            found = []
            for subject, client in CLIENTS.items():
                if client.get("is_native") and importlib.util.find_spec("headrace_native") is None:
                    servers.skip(f"sdk: {subject}", "headrace_native is not installed (extra `fast`)")
                    continue
                for shape in _SHAPES_OF.get(subject, _SHAPES):
                    count = _DURABLE_COUNT if subject == DURABLE else servers.scaled(_SHAPES[shape].count)
                    found.append(_case(subject, shape, server, registry, count, servers.folder))
            yield found


def _case(subject: str, shape: str, server: Headrace, registry: Registry, count: int, folder: Path) -> Case:
    kind = _SHAPES[shape]

    def run(turn: int) -> Figures:
        topic = f"sdk-{list(CLIENTS).index(subject)}-{list(_SHAPES).index(shape)}-{turn}"
        kafka_clients.make_topic(server, topic)
        words = {**CLIENTS[subject], **kind.words, "count": count, "topic": topic, "bootstrap": server.bootstrap}
        words["registry_url"] = registry.url
        if "journal" in words:
            return _with_journal(words, server, registry, folder / topic)
        if kind.kills:
            words |= {"kill_pid": server.broker.pid, "kill_at": kind.words["kill_at"] * count // kind.count}
        try:
            return figures_of_calls(drive_events(words), is_whole=not kind.kills)
        finally:
            if kind.kills:
                server.broker.kill()
                server.start_broker()

    return Case(subject=subject, shape=shape, run=run)


def _with_journal(words: dict[str, Any], server: Headrace, registry: Registry, folder: Path) -> Figures:
    """Log into a journal while an agent ships it; the agent's processor time counts until the last event is in the log."""
    journals, topic = folder / "journals", words["topic"]
    agent = Agent(folder, journals=journals, bootstrap=server.bootstrap, registry_url=registry.url, topic=topic)
    agent.start()
    try:
        before = agent.cpu_s()
        driven = drive_events({**words, "journal": str(journals)})
        deadline = time.monotonic() + _SHIPPED_S
        while (shipped := kafka_clients.on_disk(server, topic).records) < driven.more["logged"]:
            if time.monotonic() > deadline:
                raise BenchFault(f"{shipped} of {driven.more['logged']} events were shipped in {_SHIPPED_S:.0f} s")
            time.sleep(0.1)
        by_agent_us = 1e6 * (agent.cpu_s() - before) / driven.count
    finally:
        agent.stop()
        shutil.rmtree(folder, ignore_errors=True)
    figures = figures_of_calls(driven, is_whole=True)
    if "in_all_us" in figures:
        figures["in_all_us"] += by_agent_us
    return figures


def drive_events(words: dict[str, Any]) -> Driven:
    """Have a driver log events; `words` are its."""
    driven = drive([sys.executable, "-m", "bench.drivers.python.events", json.dumps(words)], lambda: [])
    return replace(driven, more={**driven.more, "is_paced": "per_s" in words})


def figures_of_calls(driven: Driven, *, is_whole: bool) -> dict[str, float]:
    """Return a run's figures, an event. `is_whole`: at the end all was acknowledged. A caller that keeps a pace waits, too."""
    figures: dict[str, float] = {name: value for name, value in driven.more.items() if name not in ("is_paced", "logged")}
    if not driven.more["is_paced"]:
        figures["caller_us"] = 1e6 * driven.client_thread_s / driven.count
        if is_whole:
            figures["in_all_us"] = 1e6 * driven.client_cpu_s / driven.count
    return figures
