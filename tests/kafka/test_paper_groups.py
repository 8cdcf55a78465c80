"""The paper's consumers on Apache Kafka, whose brokers know nothing of the group: `headrace group --zookeeper` moves it."""

import json
import threading
import uuid
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from headrace.cli.main import main
from headrace.client.streams import ConnectorSettings, ConsumerConnector
from tests.kafka.copying import make_topic, numbered, send
from tests.support.kafka import KafkaProcess
from tests.support.processes import eventually


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    code = main(["group", *words, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def read(kafka: KafkaProcess, zookeeper: str, topic: str, count: int) -> list[bytes]:
    """Read so many messages in the group, commit them and leave."""
    values: list[bytes] = []
    settings = ConnectorSettings(session_timeout_ms=4_000, fetch_wait_ms=100)
    with ConsumerConnector(kafka.address, zookeeper, "g", settings=settings) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        reader = threading.Thread(target=lambda: values.extend(message.value or b"" for message in stream), daemon=True)
        reader.start()
        eventually(lambda: len(values) >= count, what="read")
        connector.commit()
    reader.join(20)
    return values


def test_a_group_of_the_papers_consumers_on_kafka_is_listed_described_and_moved(
    kafka: KafkaProcess, zookeeper_address: str, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    zookeeper = f"{zookeeper_address}/paper-{uuid.uuid4().hex[:8]}"
    make_topic(kafka, topic, 2)
    for partition in range(2):
        send(kafka, topic, numbered(f"p{partition}", 30), partition=partition)
    assert len(read(kafka, zookeeper, topic, 60)) == 60
    there, here = ("--bootstrap", kafka.address), ("--bootstrap", kafka.address, "--zookeeper", zookeeper)
    groups = AdminClient({"bootstrap.servers": kafka.address}).list_consumer_groups().result(20).valid
    assert "g" not in {one.group_id for one in groups}, "the brokers do not know it"
    assert told(capsys, "lag", "g", *there)[0] == 2
    assert [one["group"] for one in told(capsys, "list", *here)[1]] == ["g"]
    assert told(capsys, "describe", "g", *here)[1] == {"group": "g", "kind": "", "state": "Empty", "members": []}
    assert [one["lag_records"] for one in told(capsys, "lag", "g", *here)[1]["partitions"]] == [0, 0]
    told(capsys, "reset", "g", "--shift-by", "-5", *here)
    assert [one["lag_records"] for one in told(capsys, "lag", "g", *here)[1]["partitions"]] == [0, 0], "a dry run"
    code, done, _ = told(capsys, "reset", "g", "--shift-by", "-5", "--execute", *here)
    assert (code, [one["new"] for one in done["partitions"]]) == (0, [25, 25])
    assert sorted(read(kafka, zookeeper, topic, 10)) == sorted([*numbered("p0", 30)[25:], *numbered("p1", 30)[25:]])
