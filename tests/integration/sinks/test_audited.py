"""A sink beside a real audit service: its row follows what its destination has, and no other verdict follows its row."""

import io
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import confluent_kafka
import fastavro
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.runtime.status import read_status
from headrace.wire.schema_id import frame
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.librdkafka import read_all
from tests.support.live_side import LiveSide
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.told_by_ranges import ToldByRanges

START_MS = 1_790_000_400_000
W = 600_000
SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "number", "type": "int"}]}
SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
[deadlines_ms]
default = 4000
sink = 4000
[topics.default]
tiers = ["live"]
"""


@pytest.mark.situation(
    "groups and sinks",
    "a sink is stopped, killed or behind",
    shown="its own row in `sinks` UNKNOWN, `silent` names it; the verdict stays",
    when="its deadline (`sink`, three minutes)",
    do="start it, or name it in `without`",
)
def test_a_sink_s_row_follows_its_destination_and_nothing_follows_its_row(tmp_path: Path, live: LiveSide) -> None:
    topic = f"counted-{uuid.uuid4().hex[:8]}"
    tier = f"sink:sink-files-{topic}"
    schema_id = live.registry.register(f"{topic}-value", SCHEMA)[1]["id"]
    cluster = Cluster(live.bootstrap)
    create_topic(cluster, topic, partitions=2)
    producer = Producer(cluster)

    def send(window: int, count: int) -> None:
        for number in range(count):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, SCHEMA, {"number": number})
            at_ms = START_MS + window * W
            producer.send(topic, frame(schema_id, out.getvalue()), partition=number % 2, timestamp_ms=at_ms)
        producer.flush(20_000)

    words = ["sink", "files", "--topic", topic, "--folder", str(tmp_path / "out"), "--roll-ms", "200"]
    words += ["--bootstrap", live.bootstrap, "--registry", live.registry_url, "--session-timeout-ms", "1500"]
    sink = Process([sys.executable, "-m", "headrace.cli.main", *words], tmp_path / "sink.log")
    service = AuditService(tmp_path / "audit", live.bootstrap, settings=SETTINGS)

    def row(window: int) -> dict[str, Any]:
        found = service.windows(topic).get(START_MS + window * W, {})
        return {"main": found.get("verdict"), **found.get("sinks", {}).get(tier, {})}

    def is_so(window: int, main: str, mine: str, count: int | None) -> bool:
        found = row(window)
        return (found["main"], found.get("verdict"), found.get("count")) == (main, mine, count)

    try:
        service.start()
        sink.start()
        send(0, 10)
        producer.send(topic, b"no avro", partition=0, timestamp_ms=START_MS)
        producer.flush(20_000)
        eventually(
            lambda: is_so(0, "COMPLETE", "COMPLETE", 10), what=f"its row; {row(0)} {sink.output()[-1500:]}", within_ms=60_000
        )
        assert (row(0)["quarantined"], service.windows(topic)[START_MS]["quarantined"]) == (1, 0)

        sink.kill()
        send(1, 6)
        eventually(lambda: is_so(1, "COMPLETE", "UNKNOWN", None), what=f"a stopped sink's row; {row(1)}", within_ms=60_000)
        assert row(1)["silent"] == [tier]
        assert service.windows(topic)[START_MS + W]["silent"] == []
        service.process.kill()
        service.start()
        eventually(lambda: is_so(1, "COMPLETE", "UNKNOWN", None), what=f"the same after a restart; {row(1)}", within_ms=60_000)

        sink.start()
        eventually(lambda: is_so(1, "COMPLETE", "COMPLETE", 6), what=f"its row again; {row(1)}", within_ms=60_000)
        assert is_so(0, "COMPLETE", "COMPLETE", 10)
        report = Process(
            [sys.executable, "-m", "headrace.cli.main", "audit", "report", "--topic", topic, "--url", service.url],
            tmp_path / "report.log",
        ).start()
        assert report.wait(60_000) == 0, report.output()
        assert f"{tier} COMPLETE 6" in report.output()
        assert sink.stop() == 0, sink.output()[-3000:]
    finally:
        sink.kill()
        service.process.kill()
        producer.close(1_000)
        cluster.close()


def test_while_the_audit_topic_takes_nothing_it_writes_on_and_commits_nothing(tmp_path: Path, zookeeper_chroot: str) -> None:
    topic = f"untold-{uuid.uuid4().hex[:8]}"
    group = f"sink-files-{topic}"
    with BrokerProcess(tmp_path / "broker", zookeeper_chroot, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        tiny = NewTopic(AUDIT_TOPIC, 1, 1, config={"max.message.bytes": "70", "retention.ms": "-1"})
        for made in admin.create_topics([tiny, NewTopic(topic, 1, 1)]).values():
            made.result(20)
        with RegistryProcess(tmp_path / "registry", broker.address) as registry:
            schema_id = registry.register(f"{topic}-value", SCHEMA)[1]["id"]
            words = ["sink", "files", "--topic", topic, "--folder", str(tmp_path / "out"), "--roll-ms", "200"]
            words += ["--bootstrap", broker.address, "--registry", registry.url, "--status-file", str(tmp_path / "status.json")]
            sink = Process([sys.executable, "-m", "headrace.cli.main", *words], tmp_path / "sink.log").start()

            def written() -> dict[int, int]:
                """Return number → offset of what is in the files; each once."""
                files = (tmp_path / "out").glob("*/*/*/*.ndjson")
                found = [json.loads(line) for path in files for line in path.read_text().splitlines()]
                assert len({one["id"] for one in found}) == len(found)
                return {one["event"]["number"]: one["offset"] for one in found}

            def committed() -> int:
                asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
                return int(admin.list_consumer_group_offsets([asked])[group].result(20).topic_partitions[0].offset)

            def send(numbers: range) -> None:
                producer = confluent_kafka.Producer({"bootstrap.servers": broker.address})
                for number in numbers:
                    out = io.BytesIO()
                    fastavro.schemaless_writer(out, SCHEMA, {"number": number})
                    producer.produce(topic, frame(schema_id, out.getvalue()), timestamp=START_MS)
                assert producer.flush(20) == 0

            try:
                for numbers in (range(10), range(10, 20)):
                    send(numbers)
                    eventually(
                        lambda last=numbers[-1]: last in written(), what=f"files; {sink.output()[-1500:]}", within_ms=60_000
                    )
                status = eventually(lambda: stalled(tmp_path / "status.json"), what="the reason", within_ms=60_000)
                assert AUDIT_TOPIC in status["reason"]
                assert committed() < 1
                assert sorted(written()) == list(range(20))
                wider = ConfigEntry("max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
                resource = ConfigResource(ConfigResource.Type.TOPIC, AUDIT_TOPIC, incremental_configs=[wider])
                admin.incremental_alter_configs([resource])[resource].result(20)
                eventually(
                    lambda: committed() > max(written().values()), what=f"committed; {sink.output()[-1500:]}", within_ms=60_000
                )
                reports = [decode(message.value()) for message in read_all(broker.address, AUDIT_TOPIC)]
                told = ToldByRanges(one for one in reports if isinstance(one, RangeReport) and one.tier == f"sink:{group}")
                assert sorted(told.records[0]) == sorted(written().values())
                assert sorted(written()) == list(range(20))
                assert sink.stop() == 0, sink.output()[-3000:]
            finally:
                sink.kill()


def stalled(path: Path) -> dict[str, Any] | None:
    found = read_status(path)
    return found if found is not None and found["state"] == "stalled" else None
