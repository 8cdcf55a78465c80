"""Folders of replicas that moved while their broker was down: which go, and that the others stay. ZooKeeper is played."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from headrace.broker.log import topic_note
from headrace.broker.partitions import replica_note
from headrace.broker.partitions.replica_note import OldReplica, ReplicaNote
from headrace.broker.replicas.old_folders import OldFolders, may_go
from headrace.broker.replicas.states import node_of
from headrace.broker.replication.replica import Noted
from headrace.broker.replication.state import Member, State
from tests.unit.broker.partitions.memory_registries import MemoryRegistry
from tests.unit.broker.partitions.test_open_logs import reopened

ME = 1
MOVED = State(
    leader=2,
    leader_epoch=4,
    members=(Member(broker_id=2, life="memory:2"), Member(broker_id=3, life="memory:3")),
    replicas=(2, 3),
    version=9,
)
NOTED = Noted(version=5, leader_epoch=3)


def test_the_folder_of_a_replica_that_every_rule_lets_go_may_go() -> None:
    assert may_go(MOVED, NOTED, ME, live={1, 2, 3})


@pytest.mark.parametrize(
    ("state", "noted", "live"),
    [
        pytest.param(replace(MOVED, replicas=(1, 2)), NOTED, {1, 2, 3}, id="a replica"),
        pytest.param(replace(MOVED, targets=(1, 3)), NOTED, {1, 2, 3}, id="a target"),
        pytest.param(replace(MOVED, members=(*MOVED.members, Member(broker_id=1, life="x"))), NOTED, {1, 2, 3}, id="a member"),
        pytest.param(replace(MOVED, targets=(3, 4)), NOTED, {1, 2, 3}, id="another move is under way"),
        pytest.param(MOVED, replace(NOTED, version=10), {1, 2, 3}, id="the node is older than what was obeyed"),
        pytest.param(MOVED, replace(NOTED, leader_epoch=5), {1, 2, 3}, id="its epoch is older"),
        pytest.param(MOVED, replace(NOTED, went_back=True), {1, 2, 3}, id="ZooKeeper went back"),
        pytest.param(MOVED, NOTED, {1, 3}, id="the leader is away"),
        pytest.param(replace(MOVED, leader=-1), NOTED, {1, 2, 3}, id="no leader"),
        pytest.param(replace(MOVED, members=MOVED.members[:1]), NOTED, {1, 2, 3}, id="a replica is not in sync"),
        pytest.param(State(), NOTED, {1, 2, 3}, id="an empty node"),
    ],
)
def test_each_rule_alone_keeps_the_folder(state: State, noted: Noted, live: set[int]) -> None:
    assert not may_go(state, noted, ME, live)


def test_only_folders_of_replicas_that_the_topic_names_no_more_are_found_and_renamed(tmp_path: Path) -> None:
    registry = MemoryRegistry()
    registry.create("t", {0: [2, 3], 1: [1, 2], 2: [2, 3], 3: [2, 3], 4: [2, 3]}, {})
    topic_id = registry.infos["t"].topic_id
    note = ReplicaNote(token="a" * 32, version=5, leader_epoch=3)
    for index in range(6):
        folder = tmp_path / f"t-{index}"
        folder.mkdir()
        topic_note.write(folder, UUID(int=77) if index == 2 else topic_id, is_durable=False)
        if index != 3:
            replica_note.write(folder, note)
    (tmp_path / "t-4" / replica_note.NAME).write_bytes(b"damaged")
    logs = reopened(tmp_path, registry)
    assert logs.old_replicas() == {(topic_id, 0): OldReplica(topic="t", noted=note)}
    for index in (1, 2, 5):
        assert logs.drop_old("t", topic_id, index) == [], "led here, of another topic, not known"
    assert logs.drop_old("t", UUID(int=77), 0) == []
    (aside,) = logs.drop_old("t", topic_id, 0)
    assert aside.name.startswith("t-0.moved.")
    assert logs.old_replicas() == {}
    logs.close()


def test_folders_that_must_stay_are_looked_at_again_until_they_may_go() -> None:
    due: list[Callable[[], None]] = []
    states: dict[Any, Any] = {}
    dropped: list[tuple[str, int]] = []
    fates = ["away", "busy"]

    def submit(job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        fate = fates.pop(0) if fates else "answers"
        if fate == "away":
            failed(OSError("ZooKeeper does not answer"))
        elif fate == "answers":
            done(job())
        return fate != "busy"

    def drop(topic: str, topic_id: UUID, index: int) -> bool:
        dropped.append((topic, index))
        return len(dropped) > 1

    def find(found: Callable[[Mapping[Any, OldReplica]], None]) -> bool:
        one = OldReplica(topic="t", noted=ReplicaNote(token="a" * 32, version=5, leader_epoch=3))
        found({(UUID(int=1), index): one for index in (0, 1)})
        return True

    loop = SimpleNamespace(now_ms=0, call_at=lambda _, call: due.append(call))
    catalog = SimpleNamespace(brokers={2: None, 3: None})
    read = SimpleNamespace(read_many=lambda keys: {key: states[key] for key in keys if key in states})
    OldFolders(
        cast(Any, loop), ME, cast(Any, SimpleNamespace(submit=submit)), cast(Any, read), lambda: cast(Any, catalog), find, drop
    ).start()

    def look() -> None:
        due.pop()()
        assert len(due) <= 1

    for _ in range(3):
        look()
    assert dropped == [], "there are no nodes"
    states[UUID(int=1), 0] = node_of(MOVED)
    states[UUID(int=1), 1] = node_of(replace(MOVED, replicas=(1, 2)))
    look()
    look()
    assert dropped == [("t", 0), ("t", 0)], "the first time there was too much to do"
    look()
    states[UUID(int=1), 1] = node_of(MOVED)
    look()
    assert dropped[2:] == [("t", 1)]
    assert due == [], "none is left"
