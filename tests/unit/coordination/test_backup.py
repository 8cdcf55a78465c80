"""What `headrace zookeeper rebuild` makes of a broker's folders. The rest of a copy has its tests on a real ZooKeeper."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from headrace.coordination import paths
from headrace.coordination.backup import HeldFolder, with_folders
from headrace.coordination.topic_id import id_word

ID, OTHER = UUID(int=7 << 64), UUID(int=8 << 64)


def held(topic_id: UUID | None, *, is_replica: bool = False) -> HeldFolder:
    return HeldFolder(topic_id=topic_id, is_replica=is_replica)


def test_a_topic_that_only_folders_know_has_the_id_that_they_note() -> None:
    """Fault: it got a new id, and its brokers put the folders aside as those of a deleted topic."""
    first = with_folders(None, "cluster", 1, {"clicks": {0: held(ID), 2: held(None)}})
    both = with_folders(first, "cluster", 2, {"clicks": {1: held(ID)}})
    node = json.loads(both.nodes[paths.topic("clicks")])
    assert node["topic_id"] == id_word(ID)
    assert node["partitions"] == {"0": [1], "1": [2], "2": [1]}


def test_a_folder_of_an_earlier_topic_of_the_name_is_refused_in_words() -> None:
    known = with_folders(None, "cluster", 1, {"clicks": {0: held(ID)}})
    with pytest.raises(ValueError, match=f"clicks-1 is of the topic with the id {id_word(OTHER)}"):
        with_folders(known, "cluster", 2, {"clicks": {1: held(OTHER)}})


def test_each_broker_of_a_replicated_partition_that_the_copy_knows_has_a_folder_of_it() -> None:
    """Fault: the folder of every replica but the first was refused, and with it all topics of that broker."""
    known = with_folders(None, "cluster", 1, {"clicks": {0: held(ID)}})
    path = paths.topic("clicks")
    node = {**json.loads(known.nodes[path]), "partitions": {"0": [1, 2]}}
    copy = replace(known, nodes={path: json.dumps(node)})
    assert json.loads(with_folders(copy, "cluster", 2, {"clicks": {0: held(ID)}}).nodes[path]) == node
    with pytest.raises(ValueError, match=r"clicks-0 is kept by brokers \[1, 2\], and broker 3"):
        with_folders(copy, "cluster", 3, {"clicks": {0: held(ID)}})


def test_each_folder_of_a_replica_makes_its_broker_one_of_the_partition_s() -> None:
    """Fault: without a copy, the second replica of a partition was refused. And the copy may be older than a move."""
    path = paths.topic("clicks")

    def found(*brokers: int) -> object:
        copy = None
        for broker_id in brokers:
            copy = with_folders(copy, "cluster", broker_id, {"clicks": {0: held(ID, is_replica=True)}})
        assert copy is not None
        assert list(copy.replicated()) == [(ID, 0)]
        return json.loads(copy.nodes[path])["partitions"]["0"]

    assert found(3, 1, 2, 1) == [3, 1, 2]
    assert found(3) == [3, 3], "a replica whose node names one broker names it twice"
    copy = with_folders(None, "cluster", 1, {"clicks": {0: held(ID)}})
    assert copy.replicated() == {}
    assert with_folders(copy, "cluster", 2, {"clicks": {0: held(ID, is_replica=True)}}).replicated() == {(ID, 0): (1, 2)}
