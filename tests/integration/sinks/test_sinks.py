"""Sinks as real processes beside a real cluster, killed again and again; what they wrote is counted against the topic itself."""

import io
import json
import os
import random
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.apps.sinks.minute_files import MinuteFiles
from headrace.apps.sinks.sink import SinkRefused
from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.consumer.stream_message import Message
from headrace.client.errors import UnknownTopic
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.client.producer.producer import Producer
from headrace.reader.record import EventRecord
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.wire.batch.record_batch import iter_records
from headrace.wire.quarantine_record import LogOrigin, QuarantineRecord
from headrace.wire.schema_id import frame
from tests.support.live_side import LiveSide
from tests.support.postgresql import PostgresqlServer
from tests.support.processes import Process, eventually
from tests.support.told_by_ranges import ToldByRanges

COUNT = 4_000
KILLS = int(os.environ.get("HEADRACE_SINK_KILLS", "1"))
START_MS = 1_790_000_000_000
SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "server", "type": "string"},
        {"name": "number", "type": "long"},
        {"name": "page", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
NUL_AT = 17
"""The page of this number holds a NUL, which PostgreSQL's text cannot."""


class Topic:
    """A topic with `COUNT` events over three minutes, and records that are none."""

    def __init__(self, live: LiveSide, name: str) -> None:
        self.live = live
        self.name = name
        _, answer = live.registry.register(f"{name}-value", SCHEMA)
        self.schema_id = answer["id"]
        self.cluster = Cluster(live.bootstrap)
        create_topic(self.cluster, name, partitions=2)
        self.poison = [b"no avro at all", frame(self.schema_id, b"\x01"), b""]
        self.producer = Producer(self.cluster)
        self.send(range(COUNT // 2))
        for number, value in enumerate(self.poison):
            self.producer.send(name, value, partition=number % 2, timestamp_ms=START_MS)
        self.producer.flush(20_000)

    def send(self, numbers: range) -> None:
        parsed = fastavro.parse_schema(SCHEMA)
        for number in numbers:
            page = "nul\0" if number == NUL_AT else f"/{number % 7}"
            at_ms = START_MS + number * 180_000 // COUNT
            out = io.BytesIO()
            event = {"event_time": at_ms, "server": "s", "number": number, "page": page, "tags": ["a", "b"]}
            fastavro.schemaless_writer(out, parsed, event)
            self.producer.send(self.name, frame(self.schema_id, out.getvalue()), partition=number % 2, timestamp_ms=at_ms)
        self.producer.flush(20_000)

    def raw(self, name: str | None = None) -> Iterator[tuple[str, bytes]]:
        """Yield (id, value) of every record, from the log itself."""
        name = name or self.name
        ends = log_offsets(self.cluster, {TopicPartition(name, one): LATEST for one in self.cluster.partitions(name)})
        for (_, partition), end in ends.items():
            for _, batch in read_range(self.cluster, name, partition, 0, end):
                yield from ((f"{name}-{partition}-{one.offset}", bytes(one.value or b"")) for one in iter_records(batch))

    def ids(self) -> set[str]:
        """Return the ids of the events: all records but the poison."""
        return {one for one, value in self.raw() if value not in self.poison}

    def told(self, tier: str) -> dict[str, set[str]]:
        """Return "held" and "quarantined" → the ids that a sink has reported to the audit of; each must be reported in one of
        them, once.
        """
        reports = [decode(value) for _, value in self.raw(AUDIT_TOPIC)]
        mine = [one for one in reports if isinstance(one, RangeReport) and (one.tier, one.topic) == (tier, self.name)]
        found: dict[str, set[str]] = {"held": set(), "quarantined": set()}
        for partition, records in ToldByRanges(mine).records.items():
            for offset, words in records.items():
                ((_, kind, _),) = words
                found[kind].add(f"{self.name}-{partition}-{offset}")
        return found

    def await_told(self, tier: str) -> None:
        """Return once the audit knows where each record of the topic is: at the destination, or in quarantine."""
        aside = {f"{one.topic}-{one.partition}-{one.offset}" for one in self.origins()}
        wanted = {"held": {one for one, _ in self.raw()} - aside, "quarantined": aside}
        eventually(lambda: self.told(tier) == wanted, what=f"told to the audit as {tier}", within_ms=40_000)

    def origins(self) -> list[LogOrigin]:
        return [one.origin for one in self.quarantined() if isinstance(one.origin, LogOrigin)]

    def quarantined(self) -> list[QuarantineRecord]:
        found = {record.key(): record for record in map(QuarantineRecord.from_json, self._quarantine())}
        return list(found.values())

    def _quarantine(self) -> list[bytes]:
        try:
            return [value for _, value in self.raw(f"{self.name}.quarantine")]
        except UnknownTopic:
            return []


class SinkProcess:
    """`headrace sink …` on a topic."""

    def __init__(self, folder: Path, topic: Topic, *words: str) -> None:
        self.status = folder / f"{uuid.uuid4().hex[:8]}.json"
        command = [sys.executable, "-m", "headrace.cli.main", "sink", *words, "--topic", topic.name]
        command += ["--bootstrap", topic.live.bootstrap, "--registry", topic.live.registry_url, "--status-file", str(self.status)]
        self.process = Process([*command, "--session-timeout-ms", "1500"], folder / "sink.log")

    def kill_again_and_again(self, topic: Topic, has_more: Any) -> None:
        """Start it, and kill it so often, each time after it has written more; half of the events come meanwhile."""
        seed = random.randrange(1_000_000)
        print(f"seed {seed}")
        draw = random.Random(seed)
        self.process.start()
        for number in range(KILLS):
            before = has_more()
            eventually(
                lambda before=before: has_more() != before, what=f"written; {self.process.output()[-2000:]}", within_ms=40_000
            )
            time.sleep(draw.uniform(0, 0.5))
            self.process.kill()
            half = COUNT // 2
            topic.send(range(half + half * number // KILLS, half + half * (number + 1) // KILLS))
            self.process.start()


@pytest.fixture
def topic(live: LiveSide) -> Iterator[Topic]:
    made = Topic(live, f"clicks-{uuid.uuid4().hex[:8]}")
    yield made
    made.producer.close(1_000)
    made.cluster.close()


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Return what is in the finished files, read by others' means."""
    found: list[dict[str, Any]] = []
    for path in folder.glob("*/*/*/*"):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return found


def test_killed_again_and_again_each_record_is_in_one_file(tmp_path: Path, topic: Topic) -> None:
    out = tmp_path / "out"
    sink = SinkProcess(tmp_path, topic, "files", "--folder", str(out), "--roll-ms", "300")
    try:
        sink.kill_again_and_again(topic, lambda: len(list(out.glob("*/*/*/*"))))
        eventually(
            lambda: Counter(one["id"] for one in records_of(out)) == Counter(topic.ids()),
            what="every record, once",
            within_ms=40_000,
        )
        assert {one["event"]["number"] for one in records_of(out)} == set(range(COUNT))
        minutes = {path.parent.name for path in out.glob("*/*/*/*")}
        assert len(minutes) in (3, 4)
        eventually(lambda: len(topic.quarantined()) == 3, what="the poison in quarantine")
        assert {one.code for one in topic.quarantined()} == {"not_framed", "schema_mismatch"}
        topic.await_told(f"sink:sink-files-{topic.name}")
        assert sink.process.stop() == 0, sink.process.output()[-3000:]
        assert not list((out / ".headrace").rglob("*.tmp"))
    finally:
        sink.process.kill()


def test_what_files_held_when_the_sink_was_killed_is_told_and_its_poison_put_into_quarantine(
    tmp_path: Path, topic: Topic
) -> None:
    """Fault: a sink that was killed behind its ledger began there again, and what was not in quarantine yet never came."""
    out, group = tmp_path / "out", f"sink-files-{topic.name}"
    killed = MinuteFiles(out, group, "ndjson", lambda schema_id: json.dumps(SCHEMA))
    names = [TopicPartition(topic.name, partition) for partition in topic.cluster.partitions(topic.name)]
    killed.begin(dict.fromkeys(names, 0))
    ends = log_offsets(topic.cluster, dict.fromkeys(names, LATEST))
    for name, end in ends.items():
        for _, batch in read_range(topic.cluster, *name, 0, end):
            for one in iter_records(batch):
                value = bytes(one.value or b"")
                if value not in topic.poison:
                    event = fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(SCHEMA), None)
                    message = Message(*name, one.offset, one.offset + 1, one.timestamp_ms, None, value, ())
                    killed.take(EventRecord(message, topic.schema_id, event))
    assert killed.flush(ends) == []
    sink = SinkProcess(tmp_path, topic, "files", "--folder", str(out), "--roll-ms", "300")
    try:
        sink.process.start()
        eventually(lambda: len(topic.quarantined()) == 3, what="the poison in quarantine", within_ms=40_000)
        topic.await_told(f"sink:{group}")
        assert Counter(one["id"] for one in records_of(out)) == Counter(topic.ids())
        assert sink.process.stop() == 0, sink.process.output()[-3000:]
    finally:
        sink.process.kill()


class Collector(ThreadingHTTPServer):
    """Takes batches; answers 503 to each third request, and 422 to every batch with a NUL.

    Fault: the search for the refused record began again after each 503, and never ended. Fault: the pause after a 503 grew
    however much was posted in between.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.requests = 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Collecting)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Collecting(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        records = json.loads(body)
        with self.server.lock:
            self.server.requests += 1
            status = (
                503 if self.server.requests % 3 == 0 else 422 if any("\0" in one["event"]["page"] for one in records) else 200
            )
            if status == 200:
                self.server.taken.update(one["id"] for one in records)
                self.server.keys.add(self.headers["Idempotency-Key"])
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_killed_again_and_again_each_record_is_posted_and_a_refused_one_is_found(tmp_path: Path, topic: Topic) -> None:
    collector = Collector()
    url = f"http://127.0.0.1:{collector.server_port}/events"
    sink = SinkProcess(tmp_path, topic, "http", "--url", url, "--batch", "200", "--flush-ms", "100")
    try:
        sink.kill_again_and_again(topic, lambda: len(collector.taken))
        eventually(lambda: len(topic.quarantined()) == 4, what="poison and the refused one in quarantine", within_ms=40_000)
        (refused,) = [one.origin for one in topic.quarantined() if one.code == "refused_by_sink"]
        wanted = topic.ids() - {f"{refused.topic}-{refused.partition}-{refused.offset}"}  # type: ignore[union-attr]
        eventually(lambda: set(collector.taken) == wanted, what="every record", within_ms=40_000)
        assert all(key.startswith(topic.name) for key in collector.keys)
        topic.await_told(f"sink:sink-http-{topic.name}")
        assert sink.process.stop() == 0
    finally:
        sink.process.kill()
        collector.shutdown()
        collector.server_close()


@pytest.mark.needs("postgresql")
def test_killed_again_and_again_each_record_is_one_row(tmp_path: Path, topic: Topic, postgresql: PostgresqlServer) -> None:
    import psycopg

    dsn = tmp_path / "dsn"
    dsn.write_text(url := postgresql.new_database())
    sink = SinkProcess(tmp_path, topic, "postgresql", "--table", "clicks", "--dsn-file", str(dsn), "--flush-ms", "100")
    with psycopg.connect(url, autocommit=True) as db:
        # An older table of one's own: it lacks a column, and one is wider than needed.
        db.execute(
            "CREATE TABLE clicks (_topic text, _partition int, _offset bigint, _timestamp timestamptz, number numeric, "
            "PRIMARY KEY (_topic, _partition, _offset))"
        )

        def rows() -> int:
            return int(db.execute("SELECT count(*) FROM clicks").fetchone()[0])  # type: ignore[index]

        try:
            sink.kill_again_and_again(topic, rows)
            eventually(lambda: rows() == COUNT - 1, what="every row", within_ms=40_000)
            query = "SELECT _topic, _partition, _offset, number, tags, _timestamp = event_time FROM clicks"
            found = db.execute(query).fetchall()
            ids = {f"{row[0]}-{row[1]}-{row[2]}" for row in found}
            assert ids < topic.ids()
            assert {int(row[3]) for row in found} == set(range(COUNT)) - {NUL_AT}
            assert all(row[4] == ["a", "b"] and row[5] for row in found)
            eventually(lambda: len(topic.quarantined()) == 4, what="poison and the refused one in quarantine")
            topic.await_told(f"sink:sink-postgresql-{topic.name}")
            assert sink.process.stop() == 0
        finally:
            sink.process.kill()


@pytest.mark.needs("postgresql")
def test_a_column_of_another_type_ends_the_sink_with_its_name(topic: Topic, postgresql: PostgresqlServer) -> None:
    import psycopg

    from headrace.apps.sinks.postgresql import PostgresqlTable

    url = postgresql.new_database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE t (_topic text, _partition int, _offset bigint PRIMARY KEY, number text)")
    sink = PostgresqlTable(url, "t", lambda schema_id: json.dumps(SCHEMA))
    message = Message(topic.name, 0, 0, 1, START_MS, None, b"", ())
    sink.take(EventRecord(message, topic.schema_id, {"number": 1, "tags": []}))
    with pytest.raises(SinkRefused, match="column number is text, and the events' field is bigint"):
        sink.flush({TopicPartition(topic.name, 0): 1})
    sink.close()
