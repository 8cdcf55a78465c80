"""The sink that `make up` starts where it is asked for: it writes a topic of the platform to files, and stops with it."""

import json
from pathlib import Path

import pytest

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from headrace.schema_registry.client import RegistryClient
from headrace.wire.schema_id import frame
from tests.support.platform import Platform, free_shift, table_of
from tests.support.processes import eventually

pytestmark = pytest.mark.whole

SCHEMA = {"type": "record", "name": "Click", "fields": [{"name": "number", "type": "int"}]}


def test_it_starts_with_the_platform_writes_and_stops_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path / "table.toml", ["zookeeper-live", "broker-live", "registry", "sink"])
    monkeypatch.setenv("HEADRACE_PROCESS_TABLE", str(table))
    monkeypatch.setenv("HEADRACE_SINK_TOPIC", "clicks")
    platform = Platform(tmp_path / "home", free_shift(20_000))
    try:
        platform.up()
        schema_id = RegistryClient(platform.layout.registry_url).register("clicks-value", json.dumps(SCHEMA))
        cluster = Cluster(platform.layout.live_bootstrap)
        create_topic(cluster, "clicks", partitions=1)
        producer = Producer(cluster)
        producer.send("clicks", frame(schema_id, b"\x02"), partition=0, timestamp_ms=1_790_000_400_000)
        producer.close(20_000)
        cluster.close()

        def written() -> list[int]:
            files = (platform.layout.home / "sink").glob("*/*/*/*.ndjson")
            return [json.loads(line)["event"]["number"] for path in files for line in path.read_text().splitlines()]

        eventually(lambda: written() == [1], what="the record in a minute file", within_ms=120_000)
        assert platform.process("sink").state == "ready"
    finally:
        platform.down()
