"""`headrace group --zookeeper`: groups of the paper's consumers, read from their own registry. The oracle is what a broker that
knows the registry shows of the same group.
"""

import json
import threading
import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.client.consumer.zk_consumer import ZooKeeperConsumer
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.groups.group_admin import GroupHasMembers
from headrace.client.groups.zookeeper_groups import ZooKeeperGroups
from headrace.coordination.consumers import ConsumerRegistry, OffsetRegistry
from headrace.coordination.offset_reset import CHUNK, MembersRead, move_offsets
from headrace.coordination.session import Session
from tests.support.broker import BrokerProcess
from tests.support.filled_topics import create, produce
from tests.support.processes import eventually

VALUES = [f"{number:04d}".encode() for number in range(40)]


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    name = f"g-{uuid.uuid4().hex[:8]}"
    create(broker.address, name, 2)
    produce(broker.address, name, VALUES, partitions=2, batch=7)
    return name


@pytest.fixture
def group(broker: BrokerProcess, zookeeper: str, topic: str) -> str:
    """A group that has read everything and left."""
    name = f"paper-{uuid.uuid4().hex[:8]}"
    with ZooKeeperConsumer(broker.address, zookeeper, name, [topic], session_timeout_ms=2_000) as consumer:
        assert len(list(islice(consumer.stream(idle_timeout_ms=20_000), 40))) == 40
        consumer.commit()
    return name


@pytest.fixture
def session(zookeeper: str) -> Iterator[Session]:
    one = Session(zookeeper, name="test", session_timeout_ms=4_000).start()
    yield one
    one.close()


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    code = main(["group", *words, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def test_the_registry_and_a_broker_that_knows_it_show_and_move_the_same(
    broker: BrokerProcess, zookeeper: str, capsys: pytest.CaptureFixture[str], group: str
) -> None:
    there, here = ("--bootstrap", broker.address), ("--bootstrap", broker.address, "--zookeeper", zookeeper)
    assert group in {one["group"] for one in told(capsys, "list", *here)[1]}
    for words in (["--to-earliest"], ["--shift-by", "3"], ["--to-latest"], ["--shift-by", "-5"], ["--to-offset", "70"]):
        plan = told(capsys, "reset", group, *words, *there)
        assert told(capsys, "reset", group, *words, *here)[:2] == plan[:2]
        assert plan[1]["is_executed"] is False
        code, done, _ = told(capsys, "reset", group, *words, "--execute", *here)
        assert (code, done["partitions"]) == (0, plan[1]["partitions"])
        _, lag, _ = told(capsys, "lag", group, *there)
        assert told(capsys, "lag", group, *here)[1]["partitions"] == lag["partitions"]
        assert [one["committed"] for one in lag["partitions"]] == [one["new"] for one in done["partitions"]]


def test_a_group_with_members_is_described_and_keeps_its_offsets(
    broker: BrokerProcess, zookeeper: str, capsys: pytest.CaptureFixture[str], group: str, topic: str
) -> None:
    here = ("--bootstrap", broker.address, "--zookeeper", zookeeper)
    with ZooKeeperConsumer(broker.address, zookeeper, group, [topic], session_timeout_ms=2_000, consumer_id="me") as member:
        eventually(lambda: len(member.positions()) == 2, what="assigned")
        _, shown, _ = told(capsys, "describe", group, *here)
        assert (shown["kind"], shown["state"]) == ("zookeeper", "Stable")
        assert [(one["member"], one["partitions"]) for one in shown["members"]] == [("me", [[topic, 0], [topic, 1]])]
        code, _, err = told(capsys, "reset", group, "--to-earliest", "--execute", *here)
        assert (code, "has 1 member" in err) == (1, True)
    _, lag, _ = told(capsys, "lag", group, *here)
    assert {one["lag_bytes"] for one in lag["partitions"]} == {0}


def test_a_member_that_comes_between_the_look_and_the_move_keeps_the_offsets(zookeeper: str, session: Session) -> None:
    group, places = f"g-{uuid.uuid4().hex[:8]}", {TopicPartition("t", number): 7 for number in range(3)}
    groups = ZooKeeperGroups(zookeeper)
    try:
        groups.check_without_members(group)
        consumers = ConsumerRegistry(session)
        consumers.register(group, "late", {"t": 1})
        with pytest.raises(GroupHasMembers):
            groups.move(group, places)
        assert OffsetRegistry(session).get_all(group) == {}
        consumers.withdraw(group, "late")
        groups.move(group, places)
        assert OffsetRegistry(session).get_all(group) == {("t", number): 7 for number in range(3)}
        consumers.register(group, "later", {"t": 1})
    finally:
        groups.close()


def test_more_offsets_than_one_act_holds_are_moved_and_members_that_join_meanwhile_stop_it_at_its_border(
    session: Session,
) -> None:
    group, count = f"g-{uuid.uuid4().hex[:8]}", 2 * CHUNK + 1
    move_offsets(session, group, {("t", number): 1 for number in range(count)})
    registry = OffsetRegistry(session)
    assert len(registry.get_all(group)) == count
    joins = threading.Event()

    transact = session.tree.transact

    def transact_then_join(acts: Any) -> int | None:
        outcome = transact(acts)
        if not joins.is_set():
            joins.set()
            ConsumerRegistry(session).register(group, "late", {"t": 1})
        return outcome

    session.tree.transact = transact_then_join  # type: ignore[method-assign]
    with pytest.raises(MembersRead) as told_by:
        move_offsets(session, group, {("t", number): 2 for number in range(count)})
    assert told_by.value.moved == CHUNK
    assert sorted(registry.get_all(group).values()) == [1] * (CHUNK + 1) + [2] * CHUNK


def test_a_mistyped_chroot_is_told_and_not_made(
    broker: BrokerProcess, zookeeper: str, capsys: pytest.CaptureFixture[str], group: str
) -> None:
    hosts = zookeeper.partition("/")[0]
    code, _, err = told(capsys, "describe", group, "--bootstrap", broker.address, "--zookeeper", f"{hosts}/mistyped")
    assert (code, "no /consumers" in err, "chroot" in err) == (2, True, True)
    root = Session(hosts, name="root").start()
    try:
        assert root.tree.read("/mistyped") is None
    finally:
        root.close()
    code, _, err = told(capsys, "describe", "nobody", "--bootstrap", broker.address, "--zookeeper", zookeeper)
    assert (code, "no group 'nobody'" in err) == (2, True)
