"""Clients of other languages go on through a change of leader, on three brokers: nothing lost, doubled or out of order."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.clients.building import HERE, java, run
from tests.clients.positions.programs import Fixture, Program, python_with_aiokafka
from tests.support.cluster import BrokerCluster
from tests.support.processes import Process, eventually

COUNT, A_SECOND = 4_000, 400
EACH_ITS_OWN_COUNT = 1_000
"""Values that are sent one by one, each after the answer to the one before."""


@pytest.fixture
def three(zookeeper_address: str, tmp_path: Path) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path / "three", f"{zookeeper_address}/leaders-{uuid.uuid4().hex[:8]}") as running:
        yield running


def values(three: BrokerCluster, topic: str, count: int) -> list[bytes]:
    """Return what is in the topic's only partition."""
    consumer = Consumer({"bootstrap.servers": three.address, "group.id": "check", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []

    def read() -> bool:
        found.extend(one.value() for one in consumer.consume(1_000, timeout=0.2) if one.error() is None)
        return len(found) >= count

    try:
        eventually(read, what=f"{count} values")
        read()
    finally:
        consumer.close()
    return found


def java_tool(jars: str, name: str, *words: str) -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java(), "-cp", jars, quiet, f"org.apache.kafka.tools.{name}", *words]


def test_javas_idempotent_producer_and_its_group_go_on(three: BrokerCluster, jars: str, tmp_path: Path) -> None:
    topic = f"t_{uuid.uuid4().hex[:8]}"
    three.create(topic)
    described = subprocess.run(
        java_tool(jars, "TopicCommand", "--bootstrap-server", three.address, "--describe", "--topic", topic),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert "ReplicationFactor: 3" in described
    assert "Isr: 1,2,3" in described
    common = ("--bootstrap-server", three.address, "--topic", topic)
    # The tool does not retry by default, and is then not idempotent.
    (tmp_path / "producer.properties").write_text("retries=2147483647\nenable.idempotence=true\n")
    more = ("--producer.config", str(tmp_path / "producer.properties"))
    how = ("--max-messages", str(COUNT), "--throughput", str(A_SECOND), "--acks", "-1", *more)
    sending = java_tool(jars, "VerifiableProducer", *common, *how)
    reading = java_tool(jars, "VerifiableConsumer", *common, "--group-id", topic, "--reset-policy", "earliest", "--verbose")
    producer, consumer = Process(sending, tmp_path / "producer"), Process(reading, tmp_path / "consumer")
    try:
        producer.start()
        consumer.start()
        eventually(lambda: values_in(consumer.output()), within_ms=60_000, what="the consumer reads")
        killed = three.kill_leader(topic)
        eventually(lambda: not producer.is_running(), within_ms=90_000, what="all is sent")
        eventually(lambda: set(values_in(consumer.output())) == set(range(COUNT)), within_ms=60_000, what="all is read")
    except AssertionError as late:
        said_last = [line for line in consumer.output().splitlines() if "record_data" not in line][-20:]
        raise AssertionError(f"{late}: {len(set(values_in(consumer.output())))} values; " + "\n".join(said_last)) from None
    finally:
        producer.kill()
        consumer.kill()
    said = [json.loads(line) for line in producer.output().splitlines() if line.startswith("{")]
    assert [one for one in said if one["name"] == "producer_send_error"] == []
    assert values(three, topic, COUNT) == [b"%d" % number for number in range(COUNT)]
    three.brokers[killed].restart()
    three.await_in_sync(topic, 3)


def values_in(output: str) -> list[int]:
    """Return the values that VerifiableConsumer printed."""
    found = (json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}"))
    return [int(one["value"]) for one in found if one["name"] == "record_data"]


def kafkajs(fixture: Fixture) -> Program:
    return Program(["node", "change_of_leader.mjs"], Path(str(fixture("node_folder"))))


def go(client: str) -> Callable[[Fixture], Program]:
    def built(fixture: Fixture) -> Program:
        program = Path(str(fixture("build_folder"))) / "leaders"
        run(["go", "build", "-o", str(program), "./leaders"], folder=HERE / "go")
        return Program([str(program), client], program.parent)

    return built


def aiokafka(_: Fixture) -> Program:
    return Program([python_with_aiokafka(), str(HERE / "aiokafka_leaders.py")], HERE)


@pytest.mark.parametrize(
    "built",
    [
        pytest.param(kafkajs, id="kafkajs"),
        pytest.param(aiokafka, id="aiokafka"),
        pytest.param(go("franz-go"), id="franz-go"),
        pytest.param(go("sarama"), id="sarama"),
    ],
)
def test_an_idempotent_producer_and_a_reader_go_on(
    three: BrokerCluster, built: Callable[[Fixture], Program], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The programs check that no offset goes back, neither of what they send nor of what they read."""
    program = built(request.getfixturevalue)
    topic = f"t_{uuid.uuid4().hex[:8]}"
    three.create(topic)
    words = {"BOOTSTRAP": three.address, "TOPIC": topic, "COUNT": str(EACH_ITS_OWN_COUNT)}
    running = Process(program.command, tmp_path / "program", words)
    running.start(folder=program.folder)
    try:
        eventually(lambda: "read 100\n" in running.output(), within_ms=60_000, what="the consumer reads")
        killed = three.kill_leader(topic)
        eventually(lambda: not running.is_running(), within_ms=90_000, what="all is sent and read")
    except AssertionError as late:
        raise AssertionError(f"{late}: {running.output()[-3_000:]}") from None
    finally:
        running.kill()
    expected = f"sent {EACH_ITS_OWN_COUNT}, read {EACH_ITS_OWN_COUNT} of them"
    assert expected in running.output(), running.output()[-3_000:]
    assert values(three, topic, EACH_ITS_OWN_COUNT) == [b"%d" % number for number in range(EACH_ITS_OWN_COUNT)]
    three.brokers[killed].restart()
    three.await_in_sync(topic, 3)
