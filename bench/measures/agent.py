"""What the agent costs: its processor time from a log file, or from a full journal, to acknowledged Avro on our broker, beside
rsyslog, which sends the lines as they are. And what 10,000 idle files cost.

A program's start is not in these figures: it ships some lines first, and is measured from then on. What its start took is a
figure of its own.
"""

import importlib.util
import shutil
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ..harness.child import BenchFault
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.agent import Agent as AgentProcess
from ..peers.headrace import Headrace
from ..peers.registry import Registry, beside_ours
from ..peers.rsyslog import Rsyslog
from ..peers.subjects import OURS
from .agent_latency import latency
from .sdk import drive_events

AGENT = "headrace agent, access log to Avro"
RSYSLOG = "rsyslog, lines as they are"
JOURNAL = "headrace agent, native"
JOURNAL_IN_PYTHON = "headrace agent, Python"
SHIP = "one file"
SHIP_JOURNAL = "a full journal"
IDLE = "10,000 idle files"
_FIRST_LINES = 20_000
_LINES = 400_000
_EVENTS = 400_000
_IDLE_FILES = 10_000
_SETTLED_S = 40
_WATCHED_S = 30
_LONGEST_S = 300


class Shipper(Protocol):
    def start(self) -> None: ...

    def cpu_s(self) -> float: ...

    def stop(self) -> None: ...


class Agent:
    """Megabytes of log a second of processor time."""

    name = "agent"
    title = "Shipping an access log, 190 bytes a line, to the broker"
    needs = frozenset({OURS})
    warm_ups = 0
    at_most = 5

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        with beside_ours(servers) as (server, registry):
            folder = servers.folder / "agent"
            folder.mkdir()
            first, log = folder / "first.log", folder / "access.log"
            write_log(first, _FIRST_LINES)
            write_log(log, servers.scaled(_LINES))
            makers: dict[str, Callable[[Path, str, Path], Shipper]] = {
                AGENT: lambda where, topic, path: _agent(where, topic, [str(path)], "access_log", server, registry),
                RSYSLOG: lambda where, topic, path: Rsyslog(where, log=path, bootstrap=server.bootstrap, topic=topic),
            }
            try:
                found = [_ship(subject, make, server, first, log, servers) for subject, make in makers.items()]
                found += [
                    _ship_journal(subject, server, registry, folder, servers)
                    for subject in (JOURNAL, JOURNAL_IN_PYTHON)
                    if _has_native(servers, subject)
                ]
                found.append(latency(server, registry, folder))
                found.append(_idle(server, registry, folder))
                yield found
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _has_native(servers: Servers, subject: str) -> bool:
    if subject == JOURNAL and importlib.util.find_spec("headrace_native") is None:
        servers.skip(f"agent: {subject}", "headrace_native is not installed (extra `fast`)")
        return False
    return True


def _ship(
    subject: str,
    make: Callable[[Path, str, Path], Shipper],
    server: Headrace,
    first: Path,
    log: Path,
    servers: Servers,
) -> Case:
    lines = servers.scaled(_LINES)

    def run(turn: int) -> Figures:
        topic = f"agent-{(AGENT, RSYSLOG).index(subject)}-{turn}"
        kafka_clients.make_topic(server, topic)
        folder = log.parent / topic
        folder.mkdir()
        followed = folder / "access.log"
        shutil.copyfile(first, followed)
        shipper = make(folder / "shipper", topic, followed)
        shipper.start()
        try:
            _wait_for(server, topic, _FIRST_LINES)
            start_cpu_s, began = shipper.cpu_s(), time.monotonic()
            with log.open("rb") as source, followed.open("ab") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            _wait_for(server, topic, _FIRST_LINES + lines)
            used_s, took_s = shipper.cpu_s() - start_cpu_s, time.monotonic() - began
        finally:
            shipper.stop()
            shutil.rmtree(folder, ignore_errors=True)
        megabytes = log.stat().st_size / 1e6
        return {
            "mb_per_cpu_s": megabytes / used_s,
            "us_per_line": 1e6 * used_s / lines,
            "mb_per_s": megabytes / took_s,
            "start_cpu_s": start_cpu_s,
        }

    return Case(subject=subject, shape=SHIP, run=run, how="start left out")


def _ship_journal(subject: str, server: Headrace, registry: Registry, folder: Path, servers: Servers) -> Case:
    count = servers.scaled(_EVENTS)
    is_native = subject == JOURNAL

    def run(turn: int) -> Figures:
        topic = f"agent-journal-{int(is_native)}-{turn}"
        kafka_clients.make_topic(server, topic)
        where = folder / topic
        journals, written = where / "journals", where / "written"
        journals.mkdir(parents=True)
        environment = {"HEADRACE_NATIVE": "1" if is_native else "0"}
        agent = AgentProcess(
            where / "agent",
            journals=journals,
            bootstrap=server.bootstrap,
            registry_url=registry.url,
            topic=topic,
            environment=environment,
        )
        words: dict[str, Any] = {"client": "headrace", "topic": topic, "journal": str(written), "is_native": is_native}
        few, many = (drive_events({**words, "count": some}).more["logged"] for some in (1, count))
        first, second = sorted(written.glob("*/*"), key=_size)
        agent.start()
        try:
            start_cpu_s = _shipped(first, journals, agent, server, topic, few)
            used_s = _shipped(second, journals, agent, server, topic, few + many) - start_cpu_s
        finally:
            agent.stop()
            shutil.rmtree(where, ignore_errors=True)
        return {"us_per_event": 1e6 * used_s / many, "start_cpu_s": start_cpu_s}

    return Case(subject=subject, shape=SHIP_JOURNAL, run=run, how="start left out")


def _size(journal: Path) -> int:
    return sum(one.stat().st_size for one in journal.iterdir())


def _shipped(journal: Path, root: Path, agent: AgentProcess, server: Headrace, topic: str, records: int) -> float:
    """Give the agent a journal that is closed; return its processor time once the topic holds so many records."""
    (root / journal.parent.name).mkdir(exist_ok=True)
    journal.rename(root / journal.parent.name / journal.name)
    _wait_for(server, topic, records)
    return agent.cpu_s()


def _wait_for(server: Headrace, topic: str, records: int) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while (shipped := kafka_clients.on_disk(server, topic).records) < records:
        if time.monotonic() > deadline:
            raise BenchFault(f"{shipped} of {records} records were shipped in {_LONGEST_S} s")
        time.sleep(0.1)


def _idle(server: Headrace, registry: Registry, folder: Path) -> Case:
    def run(turn: int) -> Figures:
        topic = f"agent-idle-{turn}"
        kafka_clients.make_topic(server, topic)
        files = folder / topic / "files"
        files.mkdir(parents=True)
        for number in range(_IDLE_FILES):
            (files / f"{number}.log").write_text(f"one line of file {number}\n")
        # Not from their beginning: a file's first line is a batch of its own, and a partition takes one a turn.
        more = 'start = "end"\n'
        agent = _agent(folder / f"{topic}-agent", topic, [f"{files}/*.log"], "raw", server, registry, more)
        agent.start()
        try:
            with (files / "0.log").open("a") as file:
                file.write("it is at work\n")
            _wait_for(server, topic, 1)
            time.sleep(_SETTLED_S)
            before = agent.cpu_s()
            time.sleep(_WATCHED_S)
            return {"core_share_percent": 100 * (agent.cpu_s() - before) / _WATCHED_S}
        finally:
            agent.stop()
            shutil.rmtree(folder / topic, ignore_errors=True)

    return Case(subject="headrace agent", shape=IDLE, run=run)


def _agent(
    folder: Path, topic: str, paths: list[str], parser: str, server: Headrace, registry: Registry, more: str = ""
) -> AgentProcess:
    section = f'[[tail]]\npaths = {paths!r}\ntopic = "{topic}"\nparser = "{parser}"\n{more}'
    return AgentProcess(
        folder, journals=folder / "journals", bootstrap=server.bootstrap, registry_url=registry.url, topic=topic, more=section
    )


def write_log(path: Path, lines: int) -> None:
    """Write an access log in which clients, paths and agents repeat as they do in life."""
    agents = [f"Mozilla/5.0 (X11; Linux x86_64; rv:{number}.0) Gecko/20100101 Firefox/{number}.0" for number in range(300)]
    with path.open("w") as file:
        for number in range(lines):
            second = number // 50
            stamp = f"17/May/2015:{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02} +0000"
            client = f"83.{number * 7 % 40}.{number * 13 % 60}.{number // 9 % 250}"
            referrer = "-" if number % 3 else f"http://www.example.com/articles/{number * 31 % 2_000}"
            file.write(
                f'{client} - - [{stamp}] "GET /articles/{number * 17 % 5_000}/page-{number % 11}.html HTTP/1.1" '
                f'{(200, 200, 200, 304, 404)[number % 5]} {number * 37 % 60_000} "{referrer}" "{agents[number * 3 % 300]}"\n'
            )
