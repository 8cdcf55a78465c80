"""Processes of the service, which a test may kill, and readers of their files."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.runtime.status import read_status
from tests.support.broker import BrokerProcess
from tests.support.librdkafka import read_all
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.told_by_ranges import ToldByRanges


class Members:
    """Processes of the service: started, awaited, killed by their own id."""

    def __init__(self, folder: Path, zookeeper: str, bootstrap: str, registry: str) -> None:
        self.home = folder / "home"
        self.bootstrap = bootstrap
        self._folder = folder
        self._words = ["--zookeeper", zookeeper, "--bootstrap", bootstrap, "--registry", registry]
        self._words += ["--audit-bootstrap", bootstrap, "--session-timeout-ms", "2000", "--home", str(self.home)]
        self.processes: dict[str, Process] = {}

    def start(self, consumer_id: str, topic: str) -> Process:
        status = self._status(consumer_id)
        status.unlink(missing_ok=True)
        words = ["consumer", "run", "--topic", topic, "--group", "request-rate", "--consumer-id", consumer_id]
        words += [*self._words, "--status-file", str(status)]
        process = Process([sys.executable, "-m", "headrace.cli.main", *words], self._folder / f"{consumer_id}.log").start()
        self.processes[consumer_id] = process
        return process

    def _status(self, consumer_id: str) -> Path:
        # The consumers of a platform have theirs here: `headrace rates` looks here for the counted topics.
        folder = self.home / "run"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{consumer_id}.json"

    def status(self, consumer_id: str) -> dict[str, Any]:
        """Return the status file's content, for a running process; fail with its log if it has ended."""
        process = self.processes[consumer_id]
        assert process.is_running(), process.output()[-4000:]
        return read_status(self._status(consumer_id)) or {}

    def await_ready(self, consumer_id: str) -> None:
        eventually(lambda: self.status(consumer_id).get("state") == "ready", what=f"{consumer_id} ready")

    def owned(self, consumer_id: str) -> set[int]:
        return {int(partition) for partition in self.status(consumer_id).get("partitions", {})}

    def rates(self, *words: str) -> str:
        """Return what `headrace rates` prints."""
        process = Process(
            [sys.executable, "-m", "headrace.cli.main", "rates", "--home", str(self.home), *words], self._folder / "rates"
        )
        process.log.unlink(missing_ok=True)
        process.start()
        eventually(lambda: not process.is_running(), what="rates printed")
        return process.output()

    def minutes(self, topic: str) -> dict[int, int]:
        return {row["minute_start_ms"]: row["requests"] for row in json.loads(self.rates("--topic", topic, "--json"))}

    def stop_all(self) -> None:
        for process in self.processes.values():
            process.kill()


@pytest.fixture
def members(tmp_path: Path, zookeeper: str, broker: BrokerProcess, registry: RegistryProcess) -> Iterator[Members]:
    made = Members(tmp_path, zookeeper, broker.address, registry.url)
    yield made
    made.stop_all()


def told(bootstrap: str, topic: str) -> ToldByRanges:
    """Return what the service's tier has reported about one topic."""
    reports = [decode(message.value()) for message in read_all(bootstrap, AUDIT_TOPIC)]
    mine = [report for report in reports if isinstance(report, RangeReport) and report.topic == topic]
    assert {report.tier for report in mine} == {"consumer:request-rate"}
    return ToldByRanges(mine)
