"""What shipping a log file costs: the agent's processor time from the file to acknowledged Avro on our broker, beside rsyslog,
which sends the lines as they are. And what 10,000 idle files cost.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ..harness.child import BenchFault
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.agent import Agent as AgentProcess
from ..peers.headrace import Headrace
from ..peers.registry import Registry, beside_ours
from ..peers.rsyslog import Rsyslog
from ..peers.subjects import OURS

AGENT = "headrace agent, access log to Avro"
RSYSLOG = "rsyslog, lines as they are"
SHIP = "one file"
IDLE = "10,000 idle files"
_LINES = 400_000
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
            log = folder / "access.log"
            lines = servers.scaled(_LINES)
            write_log(log, lines)
            try:
                makers: dict[str, Callable[[Path, str], Shipper]] = {
                    AGENT: lambda where, topic: _agent(where, topic, [str(log)], "access_log", server, registry),
                    RSYSLOG: lambda where, topic: Rsyslog(where, log=log, bootstrap=server.bootstrap, topic=topic),
                }
                found = [_ship(subject, make, server, folder, log, lines) for subject, make in makers.items()]
                found.append(_idle(server, registry, folder))
                yield found
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _ship(subject: str, make: Callable[[Path, str], Shipper], server: Headrace, folder: Path, log: Path, lines: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"agent-{subject.split()[0]}-{turn}"
        kafka_clients.make_topic(server, topic)
        shipper = make(folder / topic, topic)
        began = time.monotonic()
        shipper.start()
        try:
            while (shipped := kafka_clients.on_disk(server, topic).records) < lines:
                if time.monotonic() - began > _LONGEST_S:
                    raise BenchFault(f"{shipped} of {lines} lines were shipped in {_LONGEST_S} s")
                time.sleep(0.2)
            used_s, took_s = shipper.cpu_s(), time.monotonic() - began
        finally:
            shipper.stop()
            shutil.rmtree(folder / topic, ignore_errors=True)
        megabytes = log.stat().st_size / 1e6
        return {"mb_per_cpu_s": megabytes / used_s, "us_per_line": 1e6 * used_s / lines, "mb_per_s": megabytes / took_s}

    return Case(subject=subject, shape=SHIP, run=run, how="start included")


def _idle(server: Headrace, registry: Registry, folder: Path) -> Case:
    def run(turn: int) -> Figures:
        topic = f"agent-idle-{turn}"
        kafka_clients.make_topic(server, topic)
        files = folder / topic / "files"
        files.mkdir(parents=True)
        for number in range(_IDLE_FILES):
            (files / f"{number}.log").write_text(f"one line of file {number}\n")
        agent = _agent(folder / f"{topic}-agent", topic, [f"{files}/*.log"], "raw", server, registry)
        agent.start()
        try:
            began = time.monotonic()
            while kafka_clients.on_disk(server, topic).records < _IDLE_FILES:
                if time.monotonic() - began > _LONGEST_S:
                    raise BenchFault(f"{_IDLE_FILES} files of one line were not shipped in {_LONGEST_S} s")
                time.sleep(0.2)
            time.sleep(_SETTLED_S)
            before = agent.cpu_s()
            time.sleep(_WATCHED_S)
            return {"core_share_percent": 100 * (agent.cpu_s() - before) / _WATCHED_S}
        finally:
            agent.stop()
            shutil.rmtree(folder / topic, ignore_errors=True)

    return Case(subject="headrace agent", shape=IDLE, run=run)


def _agent(folder: Path, topic: str, paths: list[str], parser: str, server: Headrace, registry: Registry) -> AgentProcess:
    section = f'[[tail]]\npaths = {paths!r}\ntopic = "{topic}"\nparser = "{parser}"\n'
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
