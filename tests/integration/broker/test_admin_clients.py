"""Admin calls of other projects' clients, against a real broker process and a real ZooKeeper. Their changes take effect at
once, survive a restart and are visible to every broker.
"""

import struct
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kafka.admin import NewPartitions as PythonPartitions
from kafka.admin import NewTopic as PythonTopic

from headrace.broker.handlers.api_table import TABLE
from headrace.wire.messages import control, produce
from headrace.wire.messages.refusals import empty_fields
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch

OLD = {
    (2, 0): struct.pack(">ii", -1, 0),
    (8, 1): struct.pack(">hihi", 0, -1, 0, 0),
    (19, 0): struct.pack(">ii", 0, 1_000),
    (19, 1): struct.pack(">ii?", 0, 1_000, True),
    (20, 0): struct.pack(">ii", 0, 1_000),
    (32, 0): struct.pack(">i", 0),
    (35, 0): struct.pack(">i", 0),
}
"""Requests that kio does not write."""
pytestmark = pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")

COMPACT = {"cleanup.policy": "compact"}


@pytest.fixture
def confluent(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


@pytest.fixture
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    yield admin
    admin.close()


def failure(call: Callable[[], Any]) -> confluent_kafka.KafkaError:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        call()
    error: confluent_kafka.KafkaError = caught.value.args[0]
    return error


def configs_of(admin: AdminClient, name: str, kind: ResourceType = ResourceType.TOPIC) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    entries: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(10)
    return entries


def set_incrementally(admin: AdminClient, topic: str, operation: AlterConfigOpType, name: str, value: str | None) -> None:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(10)


# -- confluent-kafka ----------------------------------------


def test_confluent_kafka_creates_topics_in_every_way_and_is_told_what_is_wrong(confluent: AdminClient, topic: str) -> None:
    placed = NewTopic(f"{topic}-placed", num_partitions=2, replica_assignment=[[1], [1]])
    wanted = [NewTopic(topic, 3, 1), placed, NewTopic(f"{topic}-default")]
    for made in confluent.create_topics(wanted, operation_timeout=10).values():
        made.result(10)
    listed = confluent.list_topics(timeout=10).topics
    assert [len(listed[one.topic].partitions) for one in wanted] == [3, 2, 3]
    refused = {
        NewTopic(topic, 1, 1): confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS,
        NewTopic("no/topic", 1, 1): confluent_kafka.KafkaError.TOPIC_EXCEPTION,
        NewTopic(f"{topic}-3", 1, 3): confluent_kafka.KafkaError.INVALID_REPLICATION_FACTOR,
        NewTopic(f"{topic}-c", 1, 1, config=COMPACT): confluent_kafka.KafkaError.INVALID_CONFIG,
        NewTopic(f"{topic}-9", 1, replica_assignment=[[9]]): confluent_kafka.KafkaError.INVALID_REPLICA_ASSIGNMENT,
    }
    for new, code in refused.items():
        error = failure(lambda new=new: confluent.create_topics([new])[new.topic].result(10))  # type: ignore[misc]
        assert (error.code(), bool(error.str())) == (code, True), error
    confluent.create_topics([NewTopic(f"{topic}-only", 1, 1)], validate_only=True)[f"{topic}-only"].result(10)
    assert f"{topic}-only" not in confluent.list_topics(timeout=10).topics


def test_confluent_kafka_adds_partitions(confluent: AdminClient, topic: str) -> None:
    confluent.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    confluent.create_partitions([NewPartitions(topic, 4)], validate_only=True)[topic].result(10)
    assert len(confluent.list_topics(topic, timeout=10).topics[topic].partitions) == 1
    confluent.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
    assert len(confluent.list_topics(topic, timeout=10).topics[topic].partitions) == 4
    error = failure(lambda: confluent.create_partitions([NewPartitions(topic, 2)])[topic].result(10))
    assert error.code() == confluent_kafka.KafkaError.INVALID_PARTITIONS


def test_confluent_kafka_changes_settings_and_sees_value_source_and_synonyms(confluent: AdminClient, topic: str) -> None:
    confluent.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    set_incrementally(confluent, topic, AlterConfigOpType.SET, "retention.ms", "1234567")
    set_incrementally(confluent, topic, AlterConfigOpType.SET, "max.message.bytes", "1000")
    entry = configs_of(confluent, topic)["retention.ms"]
    assert (entry.value, entry.source, entry.is_default, entry.is_read_only) == ("1234567", 1, False, False)
    assert set(entry.synonyms) == {"retention.ms", "log.retention.ms"}
    producer = confluent_kafka.Producer({"bootstrap.servers": confluent_address(confluent), "linger.ms": 0})
    told: list[Any] = []
    producer.produce(topic, b"x" * 2_000, on_delivery=lambda error, message: told.append(error))
    assert producer.flush(10) == 0
    assert [error.code() for error in told] == [confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE]
    set_incrementally(confluent, topic, AlterConfigOpType.DELETE, "retention.ms", None)
    assert configs_of(confluent, topic)["retention.ms"].source == 5
    error = failure(lambda: set_incrementally(confluent, topic, AlterConfigOpType.SET, "cleanup.policy", "compact"))
    assert error.code() == confluent_kafka.KafkaError.INVALID_CONFIG
    assert "byte offsets" in error.str()
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "4096"})
    confluent.alter_configs([resource])[resource].result(10)
    configs = configs_of(confluent, topic)
    assert (configs["segment.bytes"].value, configs["max.message.bytes"].source) == ("4096", 4)


def confluent_address(admin: AdminClient) -> str:
    (broker,) = admin.list_topics(timeout=10).brokers.values()
    return f"{broker.host}:{broker.port}"


def test_confluent_kafka_sees_the_brokers_settings_and_is_told_that_they_are_read_only(confluent: AdminClient) -> None:
    configs = configs_of(confluent, "1", ResourceType.BROKER)
    assert (configs["message.max.bytes"].value, configs["message.max.bytes"].source) == ("2000000", 4)
    assert all(entry.is_read_only for entry in configs.values())
    resource = ConfigResource(ResourceType.BROKER, "1", set_config={"num.partitions": "9"})
    error = failure(lambda: confluent.alter_configs([resource])[resource].result(10))
    assert "num.partitions" in error.str()
    assert "restart" in error.str()


def test_confluent_kafka_deletes_records_and_describes_cluster_and_topics(confluent: AdminClient, topic: str) -> None:
    confluent.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = confluent_kafka.Producer({"bootstrap.servers": confluent_address(confluent)})
    offsets: list[int] = []
    for number in range(6):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, message: offsets.append(message.offset()))
        assert producer.flush(10) == 0
    place = confluent_kafka.TopicPartition(topic, 0, offsets[3])
    assert confluent.delete_records([place])[place].result(10).low_watermark == offsets[3]
    earliest = confluent.list_offsets({confluent_kafka.TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert [one.result(10).offset for one in earliest.values()] == [offsets[3]]
    everything = confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END)
    assert confluent.delete_records([everything])[everything].result(10).low_watermark > offsets[5]
    cluster = confluent.describe_cluster(request_timeout=10).result(10)
    assert [node.id for node in cluster.nodes] == [1]
    described = confluent.describe_topics(confluent_kafka.TopicCollection([topic]))[topic].result(10)
    assert [partition.leader.id for partition in described.partitions] == [1]


def test_a_client_that_is_set_up_for_sasl_is_told_that_there_is_none(broker: BrokerProcess) -> None:
    told: list[str] = []
    admin = AdminClient(
        {
            "bootstrap.servers": broker.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "user",
            "sasl.password": "secret",
            "error_cb": lambda error: told.append(error.str()),
        }
    )
    eventually(lambda: admin.poll(0.1) >= 0 and told, what="an error told")
    assert "Request not valid in current SASL state" in told[0]


# -- kafka-python ----------------------------------------


def test_kafka_python_administers_topics(python: KafkaAdminClient, broker: BrokerProcess, topic: str) -> None:
    python.create_topics([PythonTopic(topic, 2, 1, topic_configs={"retention.ms": "4321"})])
    python.create_partitions({topic: PythonPartitions(3)})
    (described,) = python.describe_topics([topic])
    assert len(described["partitions"]) == 3
    python.alter_configs([PythonResource(ConfigResourceType.TOPIC, topic, configs={"segment.ms": "60000"})])
    shown = str(python.describe_configs([PythonResource(ConfigResourceType.TOPIC, topic)]))
    assert "60000" in shown
    assert "4321" not in shown or "retention.ms" in shown
    producer = KafkaProducer(bootstrap_servers=broker.address)
    offsets = [producer.send(topic, b"%d" % number, partition=0).get(10).offset for number in range(4)]
    producer.close()
    place = TopicPartition(topic, 0)
    python.delete_records({place: offsets[2]})
    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    assert consumer.beginning_offsets([place]) == {place: offsets[2]}
    consumer.close()
    assert python.describe_cluster()["brokers"]
    assert topic in str(python.describe_log_dirs())
    python.delete_topics([topic])
    assert topic not in python.list_topics()


def test_deleting_what_can_be_no_topics_name_says_that_there_is_none(broker: BrokerProcess) -> None:
    """A fault of before: the name was tried on ZooKeeper, where it is not a valid path; the broker answered with a retriable
    timeout.
    """
    names = ["", ".", "..", "a/b", "../../brokers", "a b"]
    with RawClient(broker.port) as client:
        answer = client.ask(20, 5, {"topic_names": names, "timeout_ms": 5_000})
    assert {str(one.name): int(one.error_code) for one in answer.responses} == dict.fromkeys(names, 3)


# -- kcat ----------------------------------------


def test_kcat_lists_a_topic_with_its_new_partitions(confluent: AdminClient, broker: BrokerProcess, topic: str) -> None:
    confluent.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    confluent.create_partitions([NewPartitions(topic, 3)])[topic].result(10)
    listed = subprocess.run(
        ["kcat", "-b", broker.address, "-L", "-t", topic], capture_output=True, text=True, timeout=20, check=True
    ).stdout
    assert f'topic "{topic}" with 3 partitions' in listed
    assert "partition 2, leader 1, replicas: 1, isrs: 1" in listed


# -- requests by hand ----------------------------------------


def test_every_advertised_version_of_every_api_is_answered_on_one_connection(broker: BrokerProcess, topic: str) -> None:
    with RawClient(broker.port) as client:
        client.ask(3, 1, {"topics": [{"name": topic}]})
        _, ranges = control.decode_api_versions(0, client.request(18, 0, b""))
        for api_key, (lowest, highest) in sorted(ranges.items()):
            for version in range(lowest, highest + 1):
                client.request(api_key, version, empty_request(api_key, version))
                client.request(18, 0, b"")
        assert ranges.keys() == TABLE.keys()


def empty_request(api_key: int, version: int) -> bytes:
    """Return a request that asks for nothing."""
    if api_key == 0:
        return produce.encode_request(max(3, version), produce.ProduceRequest(1, 1_000, None, []))[0 if version >= 3 else 2 :]
    if (api_key, version) in OLD:
        return OLD[api_key, version]
    message_type = control.message_type("request", api_key, version)
    return control.encode_request(api_key, version, empty_fields(message_type))


# -- effects ----------------------------------------


def test_settings_and_partitions_survive_a_restart_and_are_seen_by_every_broker(
    zookeeper_address: str, tmp_path: Path, topic: str
) -> None:
    chroot = f"{zookeeper_address}/broker-{uuid.uuid4().hex[:8]}"
    with BrokerProcess(tmp_path / "1", chroot) as first, BrokerProcess(tmp_path / "2", chroot, broker_id=2) as second:
        admin = AdminClient({"bootstrap.servers": first.address})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 2, what="both brokers seen")
        admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(10)
        leaders = {index: one.leader for index, one in admin.list_topics(topic, timeout=10).topics[topic].partitions.items()}
        assert set(leaders.values()) == {1, 2}
        set_incrementally(admin, topic, AlterConfigOpType.SET, "max.message.bytes", "150")
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
        for index in range(4):
            port = {1: first.port, 2: second.port}[leader_of(admin, topic, index)]
            eventually(lambda port=port, index=index: code_of_large(port, topic, index) == 10, what=f"{index} takes 150 bytes")  # type: ignore[misc]
        second.kill()
        first.stop()
        first.restart()
        assert configs_of(AdminClient({"bootstrap.servers": first.address}), topic)["max.message.bytes"].value == "150"
        mine = next(index for index in range(4) if leader_of(admin, topic, index) == 1)
        assert code_of_large(first.port, topic, mine) == 10


def leader_of(admin: AdminClient, topic: str, index: int) -> int:
    leader: int = admin.list_topics(topic, timeout=10).topics[topic].partitions[index].leader
    return leader


def code_of_large(port: int, topic: str, index: int) -> int:
    with RawClient(port) as client:
        return client.produce(topic, batch(b"x" * 200), partition=index).error_code


def test_retention_that_is_shortened_deletes_what_is_there_at_once(zookeeper_address: str, tmp_path: Path, topic: str) -> None:
    chroot = f"{zookeeper_address}/broker-{uuid.uuid4().hex[:8]}"
    with BrokerProcess(tmp_path, chroot, settings={"log.retention.check.interval.ms": 100}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
        with RawClient(broker.port) as client:
            end = client.produce(topic, batch(b"x" * 200)).base_offset
            assert client.fetch(topic, end).error_code == 0
            set_incrementally(admin, topic, AlterConfigOpType.SET, "retention.ms", "1")
            eventually(lambda: client.fetch(topic, end).error_code == 1, what="the record has expired")
