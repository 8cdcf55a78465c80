"""One folder, one broker; one id, one folder; topics as ZooKeeper has them. Real processes, real ZooKeeper."""

import socket
from pathlib import Path
from typing import Any

import pytest

from headrace.coordination.brokers import BrokerRegistry
from headrace.coordination.session import Session
from headrace.coordination.topics import TopicRegistry
from headrace.wire.errors import ErrorCode
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch


def topics_of(broker: BrokerProcess) -> dict[str, list[int]]:
    with RawClient(broker.port) as client:
        fields = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
        answer = client.ask(3, 9, {"topics": None, "allow_auto_topic_creation": False, **fields})
    return {str(topic.name): [one.leader_id for one in topic.partitions] for topic in answer.topics}


def metadata(broker: BrokerProcess, name: str) -> Any:
    with RawClient(broker.port) as client:
        fields = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
        return client.ask(3, 9, {"topics": [{"name": name}], "allow_auto_topic_creation": True, **fields})


def produced(broker: BrokerProcess, topic: str, value: bytes) -> int:
    with RawClient(broker.port) as client:
        return client.produce(topic, batch(value)).error_code


def fails_to_start(broker: BrokerProcess, exit_code: int = 1) -> str:
    """Launch it and return its output once it has ended with this exit code."""
    broker.launch()
    eventually(lambda: not broker.process.is_running(), what="the broker ended")
    assert broker.stop() == exit_code
    return broker.log


def test_a_ready_broker_listens_and_is_registered(zookeeper_chroot: str, tmp_path: Path) -> None:
    session = Session(zookeeper_chroot, name="test").start()
    try:
        with BrokerProcess(tmp_path, zookeeper_chroot, broker_id=7) as broker:
            (found,) = BrokerRegistry(session).list()
            assert (found.broker_id, found.host, found.port) == (7, "127.0.0.1", broker.port)
            assert broker.stop() == 0
            assert BrokerRegistry(session).list() == [], "a clean stop takes the registration away at once"
    finally:
        session.close()


def test_a_broker_that_was_killed_replaces_its_own_forgotten_registration(zookeeper_chroot: str, tmp_path: Path) -> None:
    settings = {"zookeeper.session.timeout.ms": 30_000}
    with BrokerProcess(tmp_path, zookeeper_chroot, settings=settings) as broker:
        broker.kill()
        broker.start(within_ms=10_000)
        metadata(broker, "t")
        assert produced(broker, "t", b"x") == 0


def test_a_second_broker_on_the_same_folder_is_refused(zookeeper_chroot: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
        second = BrokerProcess(tmp_path / "second", zookeeper_chroot, broker_id=2)
        second.process.command[second.process.command.index("--data") + 1] = str(broker.data)
        assert "held by another broker" in fails_to_start(second)
        assert topics_of(broker) == {}


def test_another_folders_broker_under_the_same_id_is_refused_and_the_first_serves_on(
    zookeeper_chroot: str, tmp_path: Path
) -> None:
    with BrokerProcess(tmp_path / "first", zookeeper_chroot) as broker:
        assert "is taken" in fails_to_start(BrokerProcess(tmp_path / "second", zookeeper_chroot))
        assert topics_of(broker) == {}


def test_a_folder_under_another_id_is_refused(zookeeper_chroot: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
        broker.stop()
        assert "belongs to broker 1, not 2" in fails_to_start(BrokerProcess(tmp_path, zookeeper_chroot, broker_id=2))


def test_a_port_that_is_taken_is_refused_by_name(zookeeper_chroot: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in fails_to_start(BrokerProcess(tmp_path, zookeeper_chroot, port=port))


def test_without_zookeeper_the_broker_does_not_start_and_says_where_it_looked(tmp_path: Path) -> None:
    settings = {"zookeeper.connection.timeout.ms": 500}
    assert "127.0.0.1:1" in fails_to_start(BrokerProcess(tmp_path, "127.0.0.1:1", settings=settings))


def test_wrong_settings_are_all_named_and_nothing_is_started(zookeeper_chroot: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, zookeeper_chroot, settings={"num.partitions": 0, "no.such": 1})
    said = fails_to_start(broker, exit_code=2)
    assert "num.partitions" in said
    assert "no.such" in said
    assert not broker.data.exists()


def test_topics_that_others_register_change_and_remove_are_followed(zookeeper_chroot: str, tmp_path: Path) -> None:
    session = Session(zookeeper_chroot, name="test").start()
    registry = TopicRegistry(session)
    try:
        with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
            registry.create("theirs", {0: [1], 1: [9]}, {})
            eventually(lambda: topics_of(broker).get("theirs") == [1, -1], what="the topic seen, one leader away")
            assert produced(broker, "theirs", b"x" * 500) == 0
            registry.set_config("theirs", {"max.message.bytes": "200"})
            eventually(lambda: produced(broker, "theirs", b"x" * 500) == ErrorCode.MESSAGE_TOO_LARGE, what="the setting in force")
            registry.delete("theirs")
            eventually(lambda: "theirs" not in topics_of(broker), what="the topic gone")
            kept = eventually(lambda: list(broker.data.glob("theirs-0.gone.*")), what="its data set aside, not deleted")
            assert sum(file.stat().st_size for file in kept[0].glob("*.log")) > 500
            metadata(broker, "theirs")
            with RawClient(broker.port) as client:
                assert client.fetch("theirs", 0).high_watermark == 0, "a new topic of that name begins empty"
    finally:
        session.close()


def test_two_brokers_share_a_clusters_partitions_and_each_names_the_other(zookeeper_chroot: str, tmp_path: Path) -> None:
    settings = {"num.partitions": 4}
    first = BrokerProcess(tmp_path / "1", zookeeper_chroot, broker_id=1, settings=settings)
    second = BrokerProcess(tmp_path / "2", zookeeper_chroot, broker_id=2, settings=settings)
    with first, second:
        eventually(lambda: len(metadata(first, "early").brokers) == 2, what="both known")
        metadata(first, "shared")
        eventually(lambda: sorted(topics_of(second).get("shared", [])) == [1, 1, 2, 2], what="partitions on both")
        leaders = topics_of(first)["shared"]
        for index, leader in enumerate(leaders):
            right, wrong = (first, second) if leader == 1 else (second, first)
            with RawClient(right.port) as at_leader, RawClient(wrong.port) as elsewhere:
                assert at_leader.produce("shared", batch(b"x"), partition=index).error_code == 0
                assert elsewhere.produce("shared", batch(b"x"), partition=index).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert elsewhere.fetch("shared", 0, partition=index).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        second.stop()
        eventually(lambda: -1 in topics_of(first)["shared"], what="its partitions without leader")


def test_a_deleted_topics_data_is_gone_and_a_new_one_of_that_name_begins_empty(zookeeper_chroot: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, zookeeper_chroot) as broker:
        metadata(broker, "t")
        assert produced(broker, "t", b"old") == 0
        with RawClient(broker.port) as client:
            assert client.ask(20, 5, {"topic_names": ["t"], "timeout_ms": 1_000}).responses[0].error_code == 0
        eventually(lambda: not list(broker.data.glob("t-*")), what="its folders gone")

        def is_there_again() -> bool:
            return bool(metadata(broker, "t").topics[0].error_code == 0)

        eventually(is_there_again, what="the topic made anew")
        with RawClient(broker.port) as client:
            assert client.fetch("t", 0).high_watermark == 0


@pytest.mark.parametrize("is_early", [True, False])
def test_sigterm_stops_a_broker_at_any_time(zookeeper_chroot: str, tmp_path: Path, is_early: bool) -> None:
    broker = BrokerProcess(tmp_path, zookeeper_chroot)
    broker.launch() if is_early else broker.start()
    assert broker.stop() in (0, -15)
    assert not broker.process.is_running()
