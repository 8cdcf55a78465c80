"""A whole platform of its own for end-to-end tests: own home, own ports, driven by the commands that a user has."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from headrace.local import audit_queries, control, preflight
from headrace.local.supervisor import process_table
from headrace.local.supervisor.state import PlatformState, ProcessState
from headrace.runtime.layout import Engine, Layout
from tests.support.processes import Process, eventually


def free_shift(above: int = 10_000) -> int:
    """Return a port shift under which every port of the platform is free now."""
    for shift in range(above, 50_000, 500):
        layout = Layout.from_environment({"PORT_SHIFT": str(shift)})
        ports = [spec.port for spec in process_table.load(layout) if spec.port is not None] + [layout.port(8000)]
        if all(preflight.is_free(port) for port in ports):
            return shift
    raise AssertionError("no free range of ports on this machine")


def table_of(
    path: Path, names: Collection[str], changes: Mapping[str, str] | None = None, *, engine: Engine = "headrace"
) -> Path:
    """Write a process table with these entries of the real one, and with some words replaced; return its path. None of them
    comes after a process that is not among them because of the engine or the number of brokers.
    """
    entries = (process_table.DEPLOY / "processes.toml").read_text().split("[[process]]")[1:]
    known = [(tomllib.loads(entry), entry) for entry in entries]
    ours = [(words["name"], entry) for words, entry in known if words.get("engine", engine) == engine]
    kept = "".join(f"[[process]]{entry}" for name, entry in ours if name in names)
    assert kept.count("[[process]]") == len(names)
    for further in ("broker-live-2", "broker-live-3"):
        if further not in names:
            kept = kept.replace(f', "{further}"', "")
    for old, new in (changes or {}).items():
        assert old in kept, old
        kept = kept.replace(old, new)
    path.write_text(kept)
    return path


class Platform:
    """The handle on one running platform."""

    def __init__(self, home: Path, port_shift: int, engine: Engine = "headrace") -> None:
        self.layout = Layout(home=home, port_shift=port_shift, engine=engine)
        self.environment = {**os.environ, **self.layout.environment(), "KEEP": "0"}
        self.said: list[str] = []
        """What the commands printed."""

    def up(self) -> Self:
        control.up(self.layout, timeout_ms=600_000)
        return self

    def down(self) -> None:
        control.down(self.layout)

    def state(self) -> PlatformState:
        return control.running(self.layout)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "headrace.cli.main", *words]

    def headrace(self, *words: str, within_s: int = 1_200, exit_code: int | tuple[int, ...] | None = 0) -> str:
        """Run a `headrace` command and return what it printed; its exit code must be `exit_code`, or one of them (None: any)."""
        done = subprocess.run(
            self.command(*words), env=self.environment, capture_output=True, text=True, timeout=within_s, check=False
        )
        self.said += [done.stdout, done.stderr]
        if exit_code is not None:
            said = f"headrace {' '.join(words)} → {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
            assert done.returncode in (exit_code if isinstance(exit_code, tuple) else (exit_code,)), said
        return done.stdout

    def in_background(self, *words: str) -> Process:
        log = self.layout.logs / f"test-{words[0]}-{os.urandom(3).hex()}.log"
        return Process(self.command(*words), log, self.environment).start()

    def report(self, topic: str) -> list[dict[str, Any]]:
        """Return what `headrace audit report --json` says of the topic."""
        found: list[dict[str, Any]] = json.loads(self.headrace("audit", "report", "--topic", topic, "--json"))
        return found

    def report_topics(self) -> set[str]:
        """Return the topics of which `headrace audit report` tells without being asked for one."""
        return {window["topic"] for window in json.loads(self.headrace("audit", "report", "--json"))}

    def topics(self, bootstrap: str, security: Mapping[str, str] | None = None) -> set[str]:
        """Return a cluster's topics, as confluent-kafka sees them. `security`: its own settings."""
        from confluent_kafka.admin import AdminClient

        return set(AdminClient({"bootstrap.servers": bootstrap, **(security or {})}).list_topics(timeout=10).topics)

    def windows(self, topic: str) -> dict[int, dict[str, Any]]:
        return audit_queries.windows(self.layout, topic)

    def query(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.headrace("query", sql, "--json"))
        return rows

    def process(self, name: str) -> ProcessState:
        return control.running(self.layout).process(name)

    def signal(self, name: str, number: int) -> int:
        """Send a signal to the group of one process; return its pid."""
        pid = self.process(name).pid
        assert pid is not None, f"{name} does not run"
        os.killpg(pid, number)
        return pid

    def kill(self, name: str) -> None:
        """`kill -9` one process and wait until the supervisor has it ready again under another pid."""
        pid = self.signal(name, signal.SIGKILL)
        self.await_restart(name, pid)

    def await_restart(self, name: str, old_pid: int) -> None:
        def again() -> bool:
            now = self.process(name)
            return now.state == "ready" and now.pid != old_pid

        eventually(again, within_ms=180_000, what=f"{name} ready again after a kill")

    def log_ends(self, bootstrap: str, topic: str) -> dict[int, int]:
        """Return each partition's log end, as confluent-kafka sees it."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test-ends", "enable.auto.commit": False})
        try:
            known = consumer.list_topics(topic, timeout=10).topics[topic]
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10, cached=False)[1]
                for number in known.partitions
            }
        finally:
            consumer.close()

    def await_complete(self, topic: str, *, within_ms: int = 120_000) -> dict[int, dict[str, Any]]:
        """Return the windows once every one of them is COMPLETE; fail with those that are not."""

        def complete() -> bool:
            found = self.windows(topic)
            bad = {start: window for start, window in found.items() if window["verdict"] != "COMPLETE"}
            assert not bad, f"{len(bad)} of {len(found)} windows are not COMPLETE, first: {next(iter(bad.values()))}"
            return bool(found)

        eventually(complete, within_ms=within_ms, every_ms=1_000, what=f"every window of {topic} COMPLETE")
        return self.windows(topic)
