"""What users see of a replicated topic, and of a broker that is killed: commands, metadata, metrics, elections."""

import json
import subprocess
import urllib.request
import uuid

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from headrace.cli.main import main
from headrace.client import topic_admin
from headrace.client.admin import create_topic
from headrace.client.cluster_status import cluster_status
from headrace.client.errors import BrokerError
from headrace.wire.errors import ErrorCode
from tests.support.cluster import BrokerCluster
from tests.support.processes import eventually


@pytest.fixture
def topic() -> str:
    return f"t_{uuid.uuid4().hex[:8]}"


def missing_brokers(three: BrokerCluster) -> list[int]:
    cluster = three.client()
    try:
        return list(cluster_status(topic_admin.describe_cluster(cluster), {}).missing_brokers)
    finally:
        cluster.close()


def json_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, object]:
    capsys.readouterr()
    assert main(list(words)) == code
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    return said


def test_a_topic_is_created_described_and_its_faults_are_shown_and_healed(
    whole: BrokerCluster, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--bootstrap", whole.address]
    made = json_of(capsys, "topic", "create", topic, "--partitions", "3", "--replication-factor", "3", *at, "--json")
    assert made["replication_factor"] == 3
    whole.await_in_sync(topic, 3)
    shown = json_of(capsys, "topic", "describe", topic, *at, "--json")
    rows = shown["partitions"]
    assert isinstance(rows, list)
    assert [(row["leader"], row["replicas"]) for row in rows] == [(ids[0], ids) for ids in (row["replicas"] for row in rows)]
    assert all(sorted(row["in_sync_replicas"]) == [1, 2, 3] and row["leader_epoch"] >= 1 for row in rows)
    assert json_of(capsys, "cluster", "status", *at, "--json")["is_well"] is True

    killed = whole.kill_leader(topic)
    # The set shrinks when the leaders have waited long enough, and the registration ends with the session.
    eventually(lambda: all(len(one.in_sync_replicas) == 2 for one in whole.places(topic)), what="two in sync")
    eventually(lambda: missing_brokers(whole) == [killed], what="the killed broker is not there")
    seen = json_of(capsys, "cluster", "status", *at, "--json", code=1)
    mine = [one for one in seen["problems"] if one["topic"] == topic]  # type: ignore[attr-defined]
    assert [one["kind"] for one in mine] == ["under_replicated"] * 3
    assert all(one["remedy"] == f"start broker {killed}" and one["min_insync_replicas"] == 2 for one in mine)

    whole.brokers[killed].restart()
    whole.await_in_sync(topic, 3)
    seen = json_of(capsys, "cluster", "status", *at, "--json")
    mine = [one for one in seen["problems"] if one["topic"] == topic]  # type: ignore[attr-defined]
    assert [(one["kind"], one["is_fault"]) for one in mine] == [("led_elsewhere", False)]
    assert main(["cluster", "elect", *at]) == 0
    eventually(lambda: all(one.leader == one.replicas[0] for one in whole.places(topic)), what="the preferred leaders")
    assert json_of(capsys, "cluster", "status", *at, "--json")["problems"] == []


def test_more_replicas_than_brokers_are_refused_in_words(whole: BrokerCluster, topic: str) -> None:
    cluster = whole.client()
    try:
        with pytest.raises(BrokerError, match="3 live brokers") as refused:
            create_topic(cluster, topic, 1, replication_factor=4)
        assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    finally:
        cluster.close()


def test_kcat_librdkafka_and_kafka_python_see_leader_replicas_and_set(whole: BrokerCluster, topic: str) -> None:
    whole.create(topic, 2)
    expected = {one.partition: (one.leader, list(one.replicas), sorted(one.in_sync_replicas)) for one in whole.places(topic)}
    partitions = AdminClient({"bootstrap.servers": whole.address}).list_topics(topic, timeout=10).topics[topic].partitions
    assert {index: (one.leader, one.replicas, sorted(one.isrs)) for index, one in partitions.items()} == expected
    admin = KafkaAdminClient(bootstrap_servers=whole.address.split(","))
    try:
        (described,) = admin.describe_topics([topic])
        assert {
            one["partition_index"]: (one["leader_id"], list(one["replica_nodes"]), sorted(one["isr_nodes"]))
            for one in described["partitions"]
        } == expected
    finally:
        admin.close()


def test_kcat_lists_the_replicas(whole: BrokerCluster, topic: str) -> None:
    whole.create(topic)
    listed = subprocess.run(
        ["kcat", "-b", whole.address, "-L", "-J", "-t", topic], capture_output=True, text=True, timeout=30, check=True
    )
    (partition,) = json.loads(listed.stdout)["topics"][0]["partitions"]
    assert sorted(one["id"] for one in partition["replicas"]) == [1, 2, 3]
    assert sorted(one["id"] for one in partition["isrs"]) == [1, 2, 3]


def test_an_election_is_passed_on_to_the_preferred_broker_by_any_other(whole: BrokerCluster, topic: str) -> None:
    whole.create(topic)
    preferred = whole.kill_leader(topic)
    cluster = whole.client()
    try:
        (refused,) = topic_admin.elect_preferred_leaders(cluster, {topic: [0]}).values()
        assert isinstance(refused, BrokerError)
        assert refused.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        whole.brokers[preferred].restart()
        whole.await_in_sync(topic, 3)
        assert topic_admin.elect_preferred_leaders(cluster, {topic: [0]}) == {(topic, 0): None}
    finally:
        cluster.close()
    eventually(lambda: whole.leader(topic) == preferred, what="the preferred broker leads")


LEADER_CHANGES = "headrace_broker_leader_changes_total"


def metrics_of(http_port: int) -> dict[str, float]:
    """Return the samples of a broker's page; labels are part of the name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def test_the_metrics_tell_of_a_broker_that_is_away(
    tmp_path_factory: pytest.TempPathFactory, zookeeper_address: str, topic: str
) -> None:
    chroot = f"{zookeeper_address}/metrics-{uuid.uuid4().hex[:8]}"
    with BrokerCluster(tmp_path_factory.mktemp("metered"), chroot, settings={"http.port": 0}) as three:
        three.create(topic, 3)

        def sums(*names: str) -> dict[str, float]:
            found = dict.fromkeys(names, 0.0)
            for broker in three.brokers.values():
                if broker.process.is_running():
                    page = metrics_of(broker.http_port)
                    for name in names:
                        found[name] += page[f"headrace_broker_{name}"]
            return found

        assert sums("leaders", "under_replicated_partitions", "offline_partitions") == {
            "leaders": 3.0,
            "under_replicated_partitions": 0.0,
            "offline_partitions": 0.0,
        }
        page = metrics_of(three.brokers[1].http_port)
        assert page[f'headrace_broker_partitions{{topic="{topic}"}}'] == 3, "followers' logs are counted"
        changes = {one: metrics_of(three.brokers[one].http_port)[LEADER_CHANGES] for one in three.brokers}
        killed = three.kill_leader(topic)
        expected = {"leaders": 3.0, "under_replicated_partitions": 3.0, "under_min_insync_partitions": 0.0}
        eventually(lambda: sums(*expected) == expected, what="all partitions are under-replicated")
        for left in three.brokers.keys() - {killed}:
            port = three.brokers[left].http_port
            eventually(lambda port=port, left=left: metrics_of(port)[LEADER_CHANGES] > changes[left], what="a change")  # type: ignore[misc]
            assert metrics_of(port)["headrace_broker_offline_partitions"] == 0
