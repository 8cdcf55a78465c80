"""A sink on the offline cluster, beside one of the same group on the live one: each has its row in the live cluster's audit."""

import io
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.wire.schema_id import frame
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually

START_MS = 1_790_000_400_000
W = 600_000
SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "number", "type": "int"}]}
SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 6000
sink = 6000
[topics.default]
tiers = ["live", "mirror", "offline"]
"""


class Offline:
    """An offline cluster, and a mirror of one topic to it."""

    def __init__(self, folder: Path, zookeeper: str, live: str, topic: str, *words: str) -> None:
        self.broker = BrokerProcess(folder / "offline", zookeeper, settings={"group.initial.rebalance.delay.ms": 0})
        command = [sys.executable, "-m", "headrace.cli.main", "mirror", "run", "--source", live, "--no-schemas"]
        command += ["--destination", self.broker.address, "--destination-zookeeper", zookeeper, "--topics", topic, *words]
        self.mirror = Process([*command, "--status-file", str(folder / "mirror.json")], folder / "mirror.log")

    def __enter__(self) -> "Offline":
        self.broker.start()
        self.mirror.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.mirror.kill()
        self.broker.kill()


@pytest.fixture
def produced(live: LiveSide) -> Iterator[Any]:
    """Return a function that makes a topic's records of one window."""
    cluster = Cluster(live.bootstrap)
    producer = Producer(cluster)

    def produce(topic: str, window: int, values: list[bytes | int]) -> None:
        schema_id = live.registry.register(f"{topic}-value", SCHEMA)[1]["id"]
        for number, value in enumerate(values):
            out = io.BytesIO()
            if isinstance(value, int):
                fastavro.schemaless_writer(out, SCHEMA, {"number": value})
                value = frame(schema_id, out.getvalue())
            producer.send(topic, value, partition=number % 2, timestamp_ms=START_MS + window * W)
        producer.flush(20_000)

    def make(topic: str) -> Any:
        create_topic(cluster, topic, partitions=2)
        return lambda window, values: produce(topic, window, values)

    yield make
    producer.close(1_000)
    cluster.close()


def sink_of(folder: Path, name: str, live: LiveSide, topic: str, *words: str) -> Process:
    command = [sys.executable, "-m", "headrace.cli.main", "sink", "files", "--topic", topic, "--folder", str(folder / name)]
    command += ["--roll-ms", "200", "--registry", live.registry_url, "--session-timeout-ms", "6000", *words]
    return Process(command, folder / f"{name}.log")


@pytest.mark.situation(
    "groups and sinks",
    "a sink on the offline cluster is stopped, killed or behind",
    shown="its own row in `sinks` UNKNOWN; its group's row on live stays",
    when="its deadline",
    do="start it, or name it in `without`",
)
def test_each_has_its_row_and_a_stopped_one_s_is_its_own_affair(
    tmp_path: Path, live: LiveSide, zookeeper_chroot: str, produced: Any
) -> None:
    topic = f"both-{uuid.uuid4().hex[:8]}"
    send = produced(topic)
    send(0, [*range(10), b"no avro"])
    tiers = {"live": f"sink:sink-files-{topic}", "offline": f"sink:sink-files-{topic}@offline"}
    with Offline(tmp_path, zookeeper_chroot, live.bootstrap, topic) as offline:
        there = ["--cluster", "offline", "--bootstrap", offline.broker.address, "--audit-bootstrap", live.bootstrap]
        sinks = {
            "live": sink_of(tmp_path, "live-files", live, topic, "--bootstrap", live.bootstrap),
            "offline": sink_of(tmp_path, "offline-files", live, topic, *there),
        }
        service = AuditService(tmp_path / "audit", live.bootstrap, offline.broker.address, settings=SETTINGS)

        def row(window: int, where: str) -> tuple[Any, ...]:
            found = service.windows(topic).get(START_MS + window * W, {})
            mine = found.get("sinks", {}).get(tiers[where], {})
            return found.get("verdict"), mine.get("verdict"), mine.get("count"), mine.get("quarantined")

        def await_row(window: int, where: str, *wanted: Any) -> None:
            def is_so() -> bool:
                return row(window, where) == wanted

            trace = lambda: f"{service.windows(topic)} {sinks[where].output()[-1500:]} {offline.mirror.output()[-1500:]}"  # noqa: E731
            try:
                eventually(is_so, what=f"row {window} of {where}", within_ms=60_000)
            except AssertionError as error:
                raise AssertionError(trace()) from error

        try:
            service.start()
            for sink in sinks.values():
                sink.start()
            for where in sinks:
                await_row(0, where, "COMPLETE", "COMPLETE", 10, 1)
            sinks["offline"].kill()
            send(1, list(range(6)))
            await_row(1, "live", "COMPLETE", "COMPLETE", 6, 0)
            await_row(1, "offline", "COMPLETE", "UNKNOWN", None, 0)
            sinks["offline"].start()
            await_row(1, "offline", "COMPLETE", "COMPLETE", 6, 0)
            for where in sinks:
                await_row(0, where, "COMPLETE", "COMPLETE", 10, 1)
                assert sinks[where].stop() == 0, sinks[where].output()[-3000:]
        finally:
            for sink in sinks.values():
                sink.kill()
            service.process.kill()


def test_a_copy_under_another_name_is_refused_with_what_to_do(
    tmp_path: Path, live: LiveSide, zookeeper_chroot: str, produced: Any
) -> None:
    topic = f"renamed-{uuid.uuid4().hex[:8]}"
    produced(topic)(0, [1, 2])
    with Offline(tmp_path, zookeeper_chroot, live.bootstrap, topic, "--rename", f"{topic}=copy-of-{topic}") as offline:
        cluster = Cluster(offline.broker.address)

        def is_there() -> bool:
            try:
                return bool(cluster.partitions(f"copy-of-{topic}"))
            except Exception as error:
                raise AssertionError(f"{error} {offline.mirror.output()[-1500:]}") from error

        try:
            eventually(is_there, what="the copy", within_ms=60_000)
        finally:
            cluster.close()
        there = ["--cluster", "offline", "--bootstrap", offline.broker.address, "--audit-bootstrap", live.bootstrap]
        sink = sink_of(tmp_path, "files", live, f"copy-of-{topic}", *there).start()
        assert sink.wait(60_000) == 1
        assert "run it with --no-audit" in sink.output()
        sink = sink_of(tmp_path, "files", live, f"copy-of-{topic}", *there[:4], "--no-audit").start()
        try:
            eventually(lambda: list((tmp_path / "files").glob("*/*/*/*.ndjson")), what="files", within_ms=60_000)
            assert sink.stop() == 0
        finally:
            sink.kill()
