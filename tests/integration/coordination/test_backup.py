"""A tree is copied, lost and brought back; nothing that was issued or committed since is issued or taken back."""

from pathlib import Path
from uuid import UUID

import pytest

from headrace.broker.partitions.issued_ids import IssuedIds
from headrace.cli.main import main
from headrace.coordination import paths
from headrace.coordination.backup import Backup, NotRestored, export, restore
from headrace.coordination.errors import CoordinationError
from headrace.coordination.producer_ids import ProducerIdBlocks, TreeLost, TreeOlder, check_age, known_cluster_id
from headrace.coordination.session import Session
from headrace.coordination.topics import TopicRegistry


@pytest.fixture
def session(zookeeper_chroot: str) -> Session:
    return Session(zookeeper_chroot, name="t")


def lose(session: Session) -> None:
    """Delete everything below the chroot."""

    def delete(path: str) -> None:
        for name in session.tree.children(path or "/"):
            delete(f"{path}/{name}")
            session.tree.delete(f"{path}/{name}")

    delete("")


def test_a_lost_tree_comes_back_and_what_was_issued_since_the_copy_is_not_issued_again(session: Session, tmp_path: Path) -> None:
    session.start()
    try:
        with pytest.raises(CoordinationError, match="no cluster"):
            export(session)
        topics, blocks = TopicRegistry(session), ProducerIdBlocks(session)
        topics.create("clicks", {0: [1], 1: [2]}, {"retention.ms": "5"})
        topics.create("owners", {0: [1]}, {})
        session.tree.put(paths.offset("ids", "owners", 0), b"40")
        session.tree.put(paths.offset("g", "clicks", 0), b"7")
        session.tree.create(paths.owner("g", "clicks", 0), b"me", ephemeral=True)
        session.tree.put(paths.leader_epoch("registry"), b"3")
        issued = {blocks.next_block().start}
        file = tmp_path / "tree.json"
        assert main(["zookeeper", "export", "--zookeeper", session.hosts, str(file)]) == 0
        copy = Backup.of_json(file.read_text())
        assert (copy, copy.topics) == (export(session), ["clicks", "owners"])
        with pytest.raises(NotRestored, match="as the copy is"):
            restore(session, copy)
        issued |= {blocks.next_block().start for _ in range(3)}
        lose(session)
        with pytest.raises(TreeLost, match="has no cluster id"):
            blocks.next_block()
        session.tree.put(paths.offset("g", "clicks", 0), b"9")
        session.tree.put(paths.leader_epoch("registry"), b"1")
        assert main(["zookeeper", "import", "--zookeeper", session.hosts, str(file)]) == 0
        after = export(session)
        assert after.cluster == copy.cluster
        assert after.nodes == {**copy.nodes, paths.offset("g", "clicks", 0): "9", paths.leader_epoch("registry"): "1000003"}
        assert session.tree.children(paths.owners("g", "clicks")) == [], "its owner registers itself"
        assert blocks.next_block().start not in issued
        assert ProducerIdBlocks(session).next_block().start not in issued
    finally:
        session.close()


def test_an_import_that_was_cut_off_is_repeated_and_another_topic_of_the_name_is_never_overwritten(session: Session) -> None:
    session.start()
    try:
        topics = TopicRegistry(session)
        ProducerIdBlocks(session).next_block()
        for number in range(3):
            topics.create(f"t{number}", {0: [1]}, {})
        copy = export(session)
        lose(session)
        session.tree.put(paths.topic("t1"), copy.nodes[paths.topic("t1")].encode())
        assert restore(session, copy) == 2
        assert topics.list() == ["t0", "t1", "t2"]
        lose(session)
        topics.create("t1", {0: [2]}, {})
        with pytest.raises(NotRestored, match="/brokers/topics/t1 is not as in the copy"):
            restore(session, copy)
        assert topics.list() == ["t1"]
    finally:
        session.close()


def test_a_topic_is_the_same_in_the_tree_that_was_brought_back_and_one_made_later_is_another(session: Session) -> None:
    """Fault: topics had new ids after an import, so the audit forgot what all tiers had told of them."""
    session.start()
    try:
        topics = TopicRegistry(session)
        ProducerIdBlocks(session).next_block()
        topics.create("clicks", {0: [1]}, {})
        own = id_of(topics, "clicks")
        for _twice in range(2):
            copy = export(session)
            lose(session)
            restore(session, copy)
            assert id_of(topics, "clicks") == own
        topics.set_config("clicks", {"retention.ms": "5"})
        topics.add_partitions("clicks", {1: [1]})
        assert id_of(topics, "clicks") == own
        topics.delete("clicks")
        topics.create("clicks", {0: [1]}, {})
        assert id_of(topics, "clicks") != own
        session.tree.put(paths.topic("odd"), b'{"partitions": {"0": [1]}, "topic_id": "no id"}')
        session.tree.put(paths.topic("kafkas"), b'{"partitions": {"0": [1]}, "topic_id": "UfnlCK8RdMxvWKSDWApc0Q"}')
        assert len({id_of(topics, name) for name in topics.list()}) == 3
        assert id_of(topics, "kafkas") == UUID("51f9e508-af11-74cc-6f58-a483580a5cd1")
    finally:
        session.close()


def id_of(topics: TopicRegistry, topic: str) -> UUID:
    info = topics.read(topic)
    assert info is not None
    return info.topic_id


OTHER_PATH = '{"v":1,"cluster":{"cluster_id":"a","producer_id_prefix":1},"next_producer_id":1,"nodes":{"/x":"1"}}'


@pytest.mark.parametrize("text", ["", "[]", '{"v": 2}', '{"v": 1}', OTHER_PATH])
def test_what_is_no_copy_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tree.json"
    file.write_text(text)
    assert main(["zookeeper", "import", "--zookeeper", "127.0.0.1:1/x", str(file)]) == 2
    assert "is not a copy that `headrace zookeeper export` wrote" in capsys.readouterr().err


def test_a_tree_that_was_set_back_issues_nothing_until_it_is_brought_back(session: Session, tmp_path: Path) -> None:
    """Fault: ids were issued again; a broker took the records of the new producer for repeated ones, and acknowledged them."""
    session.start()
    try:
        blocks = ProducerIdBlocks(session, issued=IssuedIds(tmp_path))
        first = blocks.next_block()
        copy = export(session)
        second = blocks.next_block()
        assert second.start == first.stop
        session.tree.put(paths.NEXT_PRODUCER_ID, str(copy.next_producer_id).encode())
        cluster = known_cluster_id(session)
        assert cluster is not None
        for after_restart in (blocks, ProducerIdBlocks(session, issued=IssuedIds(tmp_path))):
            with pytest.raises(TreeOlder, match=r"its next producer id is 1000, and this broker has had ids up to 2000"):
                after_restart.next_block()
        with pytest.raises(TreeOlder):
            check_age(session, cluster, IssuedIds(tmp_path))
        lose(session)
        restore(session, copy)
        check_age(session, cluster, IssuedIds(tmp_path))
        assert blocks.next_block().start >= second.stop
    finally:
        session.close()
