"""The SDK against a real broker and registry; the events are read back by Confluent's own deserializer."""

import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.topic_admin import change_topic_settings
from headrace.sdk import EventLogger, TopicRefused, event_schema, nullable
from headrace.wire.quarantine_record import QuarantineRecord
from tests.integration.sdk.identities import acknowledged, records_of, reports_of, stored
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

SCHEMA = event_schema("Click", [{"name": "number", "type": "int"}, nullable("page", "string")])


def _logger(live: LiveSide, topic: str, **changes: object) -> EventLogger:
    settings = {"bootstrap": live.bootstrap, "registry_url": live.registry_url, "application": "shop", **changes}
    return EventLogger(topic, SCHEMA, **settings)  # type: ignore[arg-type]


@pytest.fixture
def topic() -> str:
    return f"clicks-{uuid.uuid4().hex[:8]}"


def test_events_are_read_by_confluents_deserializer(live: LiveSide, topic: str) -> None:
    with _logger(live, topic, server_name="web-1") as logger:
        for number in range(200):
            assert logger.log({"number": number, "page": f"/{number}"}, event_time_ms=1_431_856_000_000 + number)
    reading = AvroDeserializer(SchemaRegistryClient({"url": live.registry_url}))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": live.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(3)])
    seen: list[dict[str, object]] = []

    def has_all() -> bool:
        for message in consumer.consume(500, timeout=0.2):
            assert message.error() is None
            event = reading(message.value(), SerializationContext(topic, MessageField.VALUE))
            assert message.timestamp()[1] == int(event["event_time"].timestamp() * 1000)
            seen.append(event)
        return len(seen) >= 200

    eventually(has_all, what="Confluent's consumer reads 200 events")
    consumer.close()
    assert sorted(event["number"] for event in seen) == list(range(200))  # type: ignore[type-var]
    assert {event["server"] for event in seen} == {"web-1"}
    assert {event["page"] for event in seen} == {f"/{number}" for number in range(200)}


def test_what_a_clean_end_has_told_is_what_the_log_holds(live: LiveSide, cluster: Cluster, topic: str) -> None:
    with _logger(live, topic, lateness_ms=None) as logger:
        for number in range(3_000):
            logger.log({"number": number}, event_time_ms=1_431_856_000_000 + number * 1_000)
        assert not logger.log({"number": "many"}, event_time_ms=1_431_856_000_000)
    reports = reports_of(cluster, topic)
    assert reports[0].windows == ()
    assert reports[-1].state == "closed"
    assert sorted(acknowledged(reports)) == sorted(stored(cluster, topic))
    assert len(stored(cluster, topic)) == 3_000
    quarantined = [QuarantineRecord.from_json(record.value or b"") for record in records_of(cluster, f"{topic}.quarantine")]
    assert [record.reason for record in quarantined] == ["field 'number' is 'many' of type str, expected int"]


@pytest.mark.situation(
    "topics",
    "a topic has `message.timestamp.type=LogAppendTime`",
    shown="the logger refuses it (TopicRefused)",
    when="at its start",
    do="set CreateTime",
)
def test_a_topic_whose_broker_rewrites_the_times_is_refused_until_it_keeps_them(
    live: LiveSide, cluster: Cluster, topic: str
) -> None:
    """Names a fault: with LogAppendTime every window looked ALTERED or INCOMPLETE, though nothing was lost."""
    create_topic(cluster, topic, 1, {"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(TopicRefused) as refused:
        _logger(live, topic)
    told = str(refused.value)
    assert told.startswith(f"topic '{topic}' on {live.bootstrap} has message.timestamp.type=LogAppendTime (its own setting): ")
    assert f"`headrace topic config {topic} --set message.timestamp.type=CreateTime`" in told
    assert reports_of(cluster, topic) == []
    change_topic_settings(cluster, topic, to_set={"message.timestamp.type": "CreateTime"})
    with _logger(live, topic) as logger:
        assert logger.log({"number": 1})
    assert len(stored(cluster, topic)) == 1


def test_killing_the_broker_while_events_are_sent_loses_and_doubles_none(live: LiveSide, cluster: Cluster, topic: str) -> None:
    logger = _logger(live, topic, batch_bytes=4_000)
    logged = 0
    stop = threading.Event()

    def log_on() -> None:
        nonlocal logged
        while not stop.is_set():
            assert logger.log({"number": logged}, event_time_ms=1_431_856_000_000 + logged * 100)
            logged += 1
            if logged % 20 == 0:
                time.sleep(0.002)

    logging_on = threading.Thread(target=log_on)
    logging_on.start()
    try:
        for _ in range(2):
            goal = logged + 2_000
            eventually(lambda goal=goal: logged > goal and logger.ledger().under_way > 0)  # type: ignore[misc]
            live.broker.kill()
            goal = logged + 500
            eventually(lambda goal=goal: logged > goal)  # type: ignore[misc]
            live.broker.start()
    finally:
        stop.set()
        logging_on.join()
        live.broker.await_ready()
    logger.close()
    assert sorted(record.timestamp_ms for record in records_of(cluster, topic)) == [
        1_431_856_000_000 + number * 100 for number in range(logged)
    ]
    assert sorted(acknowledged(reports_of(cluster, topic))) == sorted(stored(cluster, topic))
    assert reports_of(cluster, topic)[-1].state == "closed"


def test_an_application_that_forgets_to_close_is_sealed_at_its_exit(
    live: LiveSide, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    program = f"""
from headrace.sdk import EventLogger, event_schema
logger = EventLogger({topic!r}, event_schema("Click", [{{"name": "number", "type": "int"}}]), bootstrap={live.bootstrap!r},
    registry_url={live.registry_url!r}, application="script")
for number in range(50):
    logger.log({{"number": number}})
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    reports = reports_of(cluster, topic)
    assert reports[-1].state == "closed"
    assert len(acknowledged(reports)) == 50 == len(records_of(cluster, topic))


@pytest.mark.situation("producers", "a process forks with a logger open")
def test_the_line_at_the_exit_balances_with_what_the_broker_holds(live: LiveSide, cluster: Cluster, topic: str) -> None:
    """Parent and forked child, counted by Confluent's client."""
    program = f"""
import logging, os, sys
logging.basicConfig(level="INFO", stream=sys.stderr, format="%(message)s")
from headrace.sdk import EventLogger, event_schema
logger = EventLogger({topic!r}, event_schema("Click", [{{"name": "number", "type": "int"}}]), bootstrap={live.bootstrap!r},
    registry_url={live.registry_url!r}, application="script")
for number in range(1_000):
    logger.log({{"number": number}})
child = os.fork()
for number in range(500):
    logger.log({{"number": number}})
logger.log({{"number": "many"}})
if child:
    os.waitpid(child, 0)
sys.exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("logger_closed")]
    by_line = [int(word.partition("=")[2]) for line in lines for word in line.split() if word.startswith("acknowledged=")]
    assert sorted(by_line) == [500, 1_500]
    assert all("quarantined=1 dropped={}" in line for line in lines)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": live.bootstrap, "group.id": "none", "enable.auto.commit": False})
    names = [
        confluent_kafka.TopicPartition(name, partition, 0) for name in (topic, f"{topic}.quarantine") for partition in range(3)
    ]
    held = consumer.list_topics(timeout=10).topics
    consumer.assign([one for one in names if one.topic in held and one.partition in held[one.topic].partitions])
    seen: dict[str, int] = {topic: 0, f"{topic}.quarantine": 0}

    def has_all() -> bool:
        for message in consumer.consume(500, timeout=0.2):
            assert message.error() is None
            seen[str(message.topic())] += 1
        return sum(seen.values()) >= 2_002

    eventually(has_all, what="Confluent's consumer reads all events")
    assert consumer.consume(10, timeout=1.0) == []
    consumer.close()
    assert seen == {topic: 2_000, f"{topic}.quarantine": 2}
    told = acknowledged(reports_of(cluster, topic))
    assert sorted(told) == sorted(stored(cluster, topic))
    assert len(told) == 2_000


def test_a_loggers_threads_import_nothing(live: LiveSide, topic: str) -> None:
    """Fault, found by tests/chaos_sdk: the process forked while such a thread imported a message's class. In the child that
    import's lock was held for ever, and its logger never came up nor ended.
    """
    program = f"""
import sys, threading, time
from headrace.sdk import EventLogger, event_schema
before = []
class Watched(threading.Thread):
    def start(self):
        before.append(set(sys.modules))
        super().start()
threading.Thread = Watched
logger = EventLogger({topic!r}, event_schema("Click", [{{"name": "number", "type": "int"}}]), bootstrap={live.bootstrap!r},
    registry_url={live.registry_url!r}, application="script", report_every_ms=10)
logger.log({{"number": 1}})
logger.log({{"number": "many"}})
logger.flush()
reporter = logger._transport._reporter
deadline = time.monotonic() + 20
while reporter._sequence < 3 and time.monotonic() < deadline:
    time.sleep(0.01)
logger.close()
print(*sorted(set(sys.modules) - before[0]))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_a_process_that_is_killed_is_never_sealed(live: LiveSide, cluster: Cluster, topic: str) -> None:
    program = f"""
import os, signal
from headrace.sdk import EventLogger, event_schema
logger = EventLogger({topic!r}, event_schema("Click", [{{"name": "number", "type": "int"}}]), bootstrap={live.bootstrap!r},
    registry_url={live.registry_url!r}, application="script")
logger.log({{"number": 1}})
logger.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == -9
    assert {report.state for report in reports_of(cluster, topic)} == {"open"}
    assert len(records_of(cluster, topic)) == 1
