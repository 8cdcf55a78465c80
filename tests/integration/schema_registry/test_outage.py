"""The registry is down: processes that start now work on with the schemas that others have read before."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess

TOPIC = "outage"
PRODUCE = """
import sys
from headrace.sdk import EventLogger, event_schema
bootstrap, registry, topic, number = sys.argv[1:]
schema = event_schema("Click", [{"name": "page", "type": "string"}])
with EventLogger(topic, schema, bootstrap=bootstrap, registry_url=registry, application="test") as clicks:
    assert clicks.log({"page": number})
"""
LOAD = """
import json, sys
import pyarrow as pa
from headrace.schema_registry.client import RegistryClient
from headrace.spark.source.columns import SYSTEM_COLUMNS
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.source.split_source import SplitSource
from headrace.spark.source.subject_schemas import event_columns, subject_schemas
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
bootstrap, registry, topic = sys.argv[1:]
columns = event_columns(pa.schema([]), subject_schemas(RegistryClient(registry), topic).values())
target = pa.schema([*columns, *SYSTEM_COLUMNS])
cluster = Cluster(bootstrap)
pages = []
for partition in cluster.partitions(topic):
    name = TopicPartition(topic, partition)
    end = log_offsets(cluster, {name: LATEST})[name]
    if end:
        whole = OffsetRange(partition=partition, from_offset=0, to_offset=end)
        away = {"quarantine": None, "client_config": None, "cluster": "x"}
        source = SplitSource(bootstrap=bootstrap, topic=topic, registry=registry, **away)
        for batch in source.rows(whole, target, on_report=lambda report: None, wants_digest=False):
            pages += batch.column("page").to_pylist()
cluster.close()
print(json.dumps(sorted(pages)))
"""
CONSUME = """
import json, sys
from headrace.reader.decoding.event_decoder import EventDecoder
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.schema_registry.client import RegistryClient
from headrace.wire.batch.record_batch import iter_records
bootstrap, registry, topic = sys.argv[1:]
decoder, cluster, pages = EventDecoder(RegistryClient(registry)), Cluster(bootstrap), []
for partition in cluster.partitions(topic):
    name = TopicPartition(topic, partition)
    end = log_offsets(cluster, {name: LATEST})[name]
    for _, batch in read_range(cluster, topic, partition, 0, end, on_corrupt=lambda bad: None):
        pages += [decoder.decode(bytes(record.value))["page"] for record in iter_records(batch)]
cluster.close()
print(json.dumps(sorted(pages)))
"""


def test_new_producers_loads_and_consumers_start_while_the_registry_is_down(
    registry: RegistryProcess, broker: BrokerProcess, tmp_path: Path
) -> None:
    def started(program: str, *words: str, cache: str = "cache") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, broker.address, registry.url, TOPIC, *words],
            env={**os.environ, "HEADRACE_SCHEMA_CACHE": str(tmp_path / cache)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def told(program: str) -> list[str]:
        done = started(program)
        assert done.returncode == 0, done.stderr[-3_000:]
        pages: list[str] = json.loads(done.stdout.splitlines()[-1])
        return pages

    assert started(PRODUCE, "before").returncode == 0
    assert told(LOAD) == told(CONSUME) == ["before"]
    registry.process.kill()
    done = started(PRODUCE, "during")
    assert done.returncode == 0, done.stderr[-3_000:]
    assert told(LOAD) == told(CONSUME) == ["before", "during"]
    # Who never read the schema does not guess: it fails with a name, and nothing is skipped or put into quarantine.
    for program in (LOAD, CONSUME):
        ignorant = started(program, cache="other")
        assert ignorant.returncode != 0
        assert "RegistryUnavailable" in ignorant.stderr
