"""Topics of framed Avro events, written by another project's client, and the loads of them."""

import io
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import duckdb
import fastavro
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.spark.load.load_job import LoadJob, LoadOutcome
from headrace.spark.load.settings import LoadSettings
from headrace.spark.warehouse.settings import WarehouseSettings
from headrace.spark.warehouse.topic_table import LOADS
from headrace.spark.warehouse.warehouse import Warehouse
from headrace.wire.quarantine_record import QuarantineRecord
from headrace.wire.schema_id import frame
from tests.support.broker import BrokerProcess
from tests.support.librdkafka import read_all
from tests.support.processes import Process
from tests.support.registry import RegistryProcess

CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "path", "type": "string"}, {"name": "status", "type": "int"}],
}
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
LONG_AGO_MS = 1_431_856_800_000
"""2015-05-17T10:00:00Z."""


class Stage:
    """One test's own topic and warehouse on the shared broker and registry."""

    def __init__(
        self, broker: BrokerProcess, registry: RegistryProcess, home: Path, warehouse: WarehouseSettings | None = None
    ) -> None:
        """`warehouse`: what the environment names; None: a folder of the home."""
        self.broker, self.registry, self.home = broker, registry, home
        self.topic = f"clicks-{uuid.uuid4().hex[:8]}"
        self.warehouse = Warehouse(warehouse or home / "warehouse")
        self._is_named = warehouse is None
        self._processes: list[Process] = []

    def create(self, partitions: int = 3) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(20)

    def send(self, values: Sequence[tuple[int, int, bytes]], **settings: Any) -> None:
        """Write (partition, timestamp_ms, value) with librdkafka."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.broker.address, "linger.ms": 5, **settings})
        failed: list[Any] = []
        for partition, at_ms, value in values:
            producer.produce(
                self.topic,
                value,
                partition=partition,
                timestamp=at_ms,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(20) == 0
        assert not failed

    def register(self, schema: Any, *, subject: str | None = None) -> int:
        """Return the schema's id, under `<topic>-value` unless a subject is named; compatibility is not checked."""
        subject = subject or f"{self.topic}-value"
        assert self.registry.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})[0] == 200
        status, words = self.registry.register(subject, schema)
        assert status == 200, words
        found: int = words["id"]
        return found

    def settings(self, **changes: Any) -> LoadSettings:
        words: dict[str, Any] = {
            "topic": self.topic,
            "bootstrap": self.broker.address,
            "quarantine_bootstrap": self.broker.address,
            "registry_url": self.registry.url,
            "warehouse": self.warehouse.settings,
            "home": self.home,
            **changes,
        }
        return LoadSettings(**words)

    def load(self, **changes: Any) -> LoadOutcome:
        return LoadJob(self.settings(**changes)).run()

    def load_process(self, *words: str) -> Process:
        """Start the load as Airflow's task would: a process of its own."""
        command = [sys.executable, "-m", "headrace.spark.load.load_job", self.topic, *words]
        command += ["--bootstrap", self.broker.address, "--quarantine", self.broker.address]
        command += ["--registry", self.registry.url]
        command += ["--warehouse", str(self.warehouse.folder)] if self._is_named else []
        log = self.home / f"load-{uuid.uuid4().hex[:6]}.log"
        self._processes.append(Process(command, log, {"HEADRACE_HOME": str(self.home)}).start())
        return self._processes[-1]

    def close(self) -> None:
        """End the remaining loads; their JVMs are in their process groups."""
        for process in self._processes:
            process.kill()

    def stored(self, columns: str = "*") -> list[Any]:
        """Return the rows of the files that the table names, read by DuckDB from the raw files."""
        table = self.warehouse.table(self.topic)
        files = [file.file_path for file in table.files(LOADS)] if table is not None else []
        if not files:
            return []
        sql = f"select {columns} from read_parquet({files!r}, union_by_name=true, hive_partitioning=false) order by all"
        return [*duckdb.sql(sql).fetchall()]

    def in_the_log(self) -> list[tuple[int, int, int]]:
        """Return (partition, offset, timestamp_ms) of every record, read by librdkafka."""
        return [
            (message.partition(), message.offset(), message.timestamp()[1])
            for message in read_all(self.broker.address, self.topic)
        ]

    def quarantined(self) -> dict[bytes, QuarantineRecord]:
        """Return the quarantine's records by key, as its readers count them."""
        return {
            message.key(): QuarantineRecord.from_json(message.value())
            for message in read_all(self.broker.address, f"{self.topic}.quarantine")
        }


def event(schema_id: int, schema: Mapping[str, Any], words: Mapping[str, Any]) -> bytes:
    """Return a framed Avro event."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), words)
    return frame(schema_id, stream.getvalue())


def click(schema_id: int, number: int) -> bytes:
    return event(schema_id, CLICK, {"path": f"/{number}", "status": 200 + number % 5})
