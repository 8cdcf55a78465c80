"""The registries against a real ZooKeeper."""

import threading
from itertools import pairwise

import pytest

from headrace.coordination.brokers import BrokerRegistry
from headrace.coordination.consumers import ConsumerRegistry, OffsetRegistry, OwnerRegistry
from headrace.coordination.errors import (
    BrokerIdTaken,
    ConsumerIdTaken,
    CoordinationError,
    InvalidName,
    NotRegistered,
    UnreadableNode,
)
from headrace.coordination.positions import AuditPositions
from headrace.coordination.producer_ids import BLOCK, ProducerIdBlocks, cluster_id
from headrace.coordination.restate_requests import RestateRequests
from headrace.coordination.topics import TopicRegistry
from tests.support.processes import eventually
from tests.support.zookeeper import ZooKeeperProcess, expire

from .conftest import OpenSession


def test_a_broker_registers_and_is_listed_and_goes_with_its_session(open_session: OpenSession) -> None:
    broker, reader = open_session("broker"), open_session("reader")
    BrokerRegistry(broker).register(1, "127.0.0.1", 9092, "folder-a")
    (info,) = BrokerRegistry(reader).list()
    assert (info.broker_id, info.host, info.port, info.folder_id) == (1, "127.0.0.1", 9092, "folder-a")
    broker.close()
    eventually(lambda: BrokerRegistry(reader).list() == [], what="gone with its session")


def test_a_restarting_broker_replaces_the_node_of_its_own_former_life(open_session: OpenSession) -> None:
    former, present = open_session("former"), open_session("present")
    BrokerRegistry(former).register(1, "127.0.0.1", 9092, "folder-a")
    BrokerRegistry(present).register(1, "127.0.0.1", 9093, "folder-a")
    former.close()
    (info,) = BrokerRegistry(present).list()
    assert info.port == 9093, "the node is the new session's: it does not go with the former one"


def test_a_strangers_broker_id_is_refused_with_who_holds_it(open_session: OpenSession) -> None:
    BrokerRegistry(open_session()).register(1, "127.0.0.1", 9092, "folder-a")
    with pytest.raises(BrokerIdTaken, match="folder folder-a at") as caught:
        BrokerRegistry(open_session()).register(1, "127.0.0.1", 9093, "folder-b")
    assert not caught.value.retriable
    BrokerRegistry(open_session()).register(2, "127.0.0.1", 9093, "folder-b")


def test_registering_twice_in_one_session_is_registering_once(open_session: OpenSession) -> None:
    session = open_session()
    registry = BrokerRegistry(session)
    registry.register(1, "127.0.0.1", 9092, "folder-a")
    registry.register(1, "127.0.0.1", 9099, "folder-a")
    assert [info.port for info in registry.list()] == [9099]
    registry.withdraw()
    assert registry.list() == []


def test_a_broker_is_registered_again_after_its_session_was_lost(open_session: OpenSession) -> None:
    session, reader = open_session("broker"), open_session("reader")
    BrokerRegistry(session).register(1, "127.0.0.1", 9092, "folder-a")
    lost = session.tree.session_id
    expire(session)
    eventually(lambda: [info.broker_id for info in BrokerRegistry(reader).list()] == [1], what="registered again")
    assert session.tree.session_id != lost


def test_a_broker_learns_when_a_stranger_took_its_id_while_its_session_was_lost(open_session: OpenSession) -> None:
    session, stranger = open_session("broker"), open_session("stranger")
    refused: list[CoordinationError] = []
    BrokerRegistry(session).register(1, "127.0.0.1", 9092, "folder-a", on_refused=refused.append)
    path = "/brokers/ids/1"
    taking = threading.Event()

    def take() -> None:
        while not taking.is_set():
            if stranger.tree.read(path) is None:
                BrokerRegistry(stranger).register(1, "127.0.0.1", 1, "folder-b")
                return

    thread = threading.Thread(target=take)
    thread.start()
    # The other client needs the gap between loss and renewal. Delay the renewal: first delete the node under the broker.
    stranger.tree.delete(path)
    thread.join(10)
    expire(session)
    try:
        eventually(lambda: refused, what="told of the refusal")
    finally:
        taking.set()
    assert isinstance(refused[0], BrokerIdTaken)


def test_brokers_of_a_restarted_zookeeper_are_there_again(open_session: OpenSession, own_zookeeper: ZooKeeperProcess) -> None:
    session = open_session(hosts=own_zookeeper.address, session_timeout_ms=10_000)
    BrokerRegistry(session).register(1, "127.0.0.1", 9092, "folder-a")
    own_zookeeper.kill()
    own_zookeeper.start()
    eventually(session.is_sure, what="sure again")
    assert [info.broker_id for info in BrokerRegistry(session).list()] == [1]


def test_an_ephemeral_node_that_outlives_a_server_restart_does_not_keep_its_broker_out(
    open_session: OpenSession, own_zookeeper: ZooKeeperProcess
) -> None:
    former = open_session("former", hosts=own_zookeeper.address, session_timeout_ms=10_000)
    BrokerRegistry(former).register(1, "127.0.0.1", 9092, "folder-a")
    own_zookeeper.kill()
    own_zookeeper.start()
    present = open_session("present", hosts=own_zookeeper.address)
    BrokerRegistry(present).register(1, "127.0.0.1", 9092, "folder-a")
    node = present.tree.read("/brokers/ids/1")
    assert node is not None
    assert node.owner_session == present.tree.session_id


def test_watching_brokers_tells_of_coming_and_going(open_session: OpenSession) -> None:
    reader = BrokerRegistry(open_session("reader"))
    seen: list[list[int]] = []
    reader.watch(lambda: seen.append([info.broker_id for info in reader.list()]))
    broker = open_session("broker")
    BrokerRegistry(broker).register(7, "127.0.0.1", 9092, "f")
    eventually(lambda: seen and seen[-1] == [7], what="come")
    broker.close()
    eventually(lambda: seen[-1] == [], what="gone")


def test_a_topic_is_created_once_read_configured_extended_and_deleted(open_session: OpenSession) -> None:
    topics = TopicRegistry(open_session())
    assert topics.create("clicks", {0: [1], 1: [1, 2]}, {"retention.ms": "1000"})
    assert not topics.create("clicks", {0: [9]}, {})
    info = topics.read("clicks")
    assert info is not None
    assert info.partitions == {0: (1,), 1: (1, 2)}
    assert info.config == {"retention.ms": "1000"}
    assert topics.set_config("clicks", {"retention.ms": "-1"})
    assert topics.add_partitions("clicks", {1: [9], 2: [2]})
    info = topics.read("clicks")
    assert info is not None
    assert info.partitions == {0: (1,), 1: (1, 2), 2: (2,)}
    assert info.config == {"retention.ms": "-1"}
    assert topics.list() == ["clicks"]
    assert topics.read_many(["clicks", "nothing"]).keys() == {"clicks"}
    assert topics.delete("clicks")
    assert not topics.delete("clicks")
    assert topics.read("clicks") is None
    assert not topics.set_config("clicks", {})
    assert not topics.add_partitions("clicks", {})


def test_a_topic_node_of_kafka_is_read_and_a_broken_one_is_an_error(open_session: OpenSession) -> None:
    session = open_session()
    session.tree.put("/brokers/topics/kafkas", b'{"version":3,"topic_id":"x","partitions":{"0":[1]},"adding_replicas":{}}')
    info = TopicRegistry(session).read("kafkas")
    assert info is not None
    assert (info.partitions, info.config) == ({0: (1,)}, {})
    session.tree.put("/brokers/topics/broken", b"{")
    with pytest.raises(UnreadableNode):
        TopicRegistry(session).read("broken")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "t\u00e9"])
def test_an_illegal_topic_name_is_refused(open_session: OpenSession, name: str) -> None:
    with pytest.raises(InvalidName):
        TopicRegistry(open_session()).create(name, {0: [1]}, {})


def test_watching_topics_tells_of_new_changed_and_deleted_ones(open_session: OpenSession) -> None:
    reader, writer = TopicRegistry(open_session("reader")), TopicRegistry(open_session("writer"))
    seen: list[dict[str, int]] = []

    def on_change() -> None:
        seen.append({topic: len(info.partitions) for topic, info in reader.read_many(reader.list()).items()})

    end = reader.watch(on_change)
    writer.create("a", {0: [1]}, {})
    eventually(lambda: seen and seen[-1] == {"a": 1}, what="created")
    writer.add_partitions("a", {1: [1]})
    eventually(lambda: seen[-1] == {"a": 2}, what="extended")
    writer.delete("a")
    eventually(lambda: seen[-1] == {}, what="deleted")
    end()


def test_members_of_a_group_are_listed_with_their_subscriptions(open_session: OpenSession) -> None:
    one, two = open_session("one"), open_session("two")
    registry = ConsumerRegistry(one)
    registry.register("g", "c-1", {"clicks": 1})
    ConsumerRegistry(two).register("g", "c-2", {"clicks": 2, "views": 1})
    assert registry.members("g") == {"c-1": {"clicks": 1}, "c-2": {"clicks": 2, "views": 1}}
    two.close()
    eventually(lambda: registry.members("g").keys() == {"c-1"}, what="gone with its session")
    registry.withdraw("g", "c-1")
    assert registry.members("g") == {}


def test_a_consumer_id_in_use_is_refused_and_one_left_behind_is_waited_for(open_session: OpenSession) -> None:
    living, newcomer = open_session("living"), ConsumerRegistry(open_session("new"))
    ConsumerRegistry(living).register("g", "c", {"t": 1})
    with pytest.raises(ConsumerIdTaken):
        newcomer.register("g", "c", {"t": 1}, wait_ms=200)
    closing = threading.Timer(0.2, living.close)
    closing.start()
    newcomer.register("g", "c", {"t": 1}, wait_ms=10_000)
    closing.join()
    assert newcomer.members("g") == {"c": {"t": 1}}


def test_one_partition_has_one_owner_and_only_the_owner_releases_it(open_session: OpenSession) -> None:
    one, two = OwnerRegistry(open_session("one")), OwnerRegistry(open_session("two"))
    assert one.claim("g", "t", 0, "c-1")
    assert one.claim("g", "t", 0, "c-1"), "its own claim again"
    assert not two.claim("g", "t", 0, "c-2")
    assert not two.release("g", "t", 0)
    assert two.owners("g", "t") == {0: "c-1"}
    assert one.release("g", "t", 0)
    assert not one.release("g", "t", 0)
    assert two.claim("g", "t", 0, "c-2")


def test_claims_of_a_lost_session_are_gone_and_are_not_renewed(open_session: OpenSession) -> None:
    session, other = open_session("one"), OwnerRegistry(open_session("two"))
    ConsumerRegistry(session).register("g", "c-1", {"t": 1})
    owners = OwnerRegistry(session)
    assert owners.claim("g", "t", 0, "c-1")
    before = session.generation
    expire(session)
    eventually(lambda: session.is_sure() and session.generation > before, what="a new session")
    eventually(lambda: ConsumerRegistry(session).members("g") == {"c-1": {"t": 1}}, what="the member registered again")
    assert other.owners("g", "t") == {}


def test_offsets_are_kept_by_group_topic_and_partition(open_session: OpenSession) -> None:
    offsets = OffsetRegistry(open_session())
    assert offsets.get("g", "t", 0) is None
    offsets.put("g", "t", 0, 5)
    offsets.put_many("g", {("t", 0): 7, ("t", 1): 2**63 - 1, ("u", 0): 0})
    assert offsets.get_many("g", [("t", 0), ("t", 1), ("t", 2)]) == {("t", 0): 7, ("t", 1): 2**63 - 1}
    assert offsets.get_all("g") == {("t", 0): 7, ("t", 1): 2**63 - 1, ("u", 0): 0}
    assert offsets.get_all("other") == {}
    with pytest.raises(ValueError):
        offsets.put("g", "t", 0, -1)


def test_a_commit_of_one_who_is_not_registered_any_more_changes_nothing(open_session: OpenSession) -> None:
    session = open_session()
    consumers, offsets = ConsumerRegistry(session), OffsetRegistry(session)
    consumers.register("g", "c", {"t": 1})
    offsets.put_many("g", {("t", 0): 5, ("t", 1): 6}, only_while_registered="c")
    offsets.put_many("g", {("t", 0): 7, ("t", 2): 8}, only_while_registered="c")
    consumers.withdraw("g", "c")
    with pytest.raises(NotRegistered):
        offsets.put_many("g", {("t", 0): 99, ("t", 3): 99}, only_while_registered="c")
    assert offsets.get_all("g") == {("t", 0): 7, ("t", 1): 6, ("t", 2): 8}


def test_many_offsets_are_committed_in_bounded_acts(open_session: OpenSession) -> None:
    session = open_session()
    ConsumerRegistry(session).register("g", "c", {"t": 1})
    offsets = {("t", partition): partition for partition in range(1_100)}
    OffsetRegistry(session).put_many("g", offsets, only_while_registered="c")
    assert OffsetRegistry(session).get_all("g") == offsets


def test_audit_positions_move_forward_only(open_session: OpenSession) -> None:
    positions = AuditPositions(open_session())
    assert positions.read("consumer:request-rate", "t", 0) is None
    positions.write("consumer:request-rate", "t", 0, 10)
    positions.write("consumer:request-rate", "t", 0, 5)
    assert positions.read("consumer:request-rate", "t", 0) == 10
    positions.write("consumer:request-rate", "t", 0, 11)
    assert positions.read("consumer:request-rate", "t", 0) == 11
    positions.write("consumer:request-rate", "t", 10, 0)
    assert positions.partitions("consumer:request-rate", "t") == [0, 10]
    assert positions.partitions("mirror", "t") == []
    assert positions.forget("consumer:request-rate", "t", 0)
    assert positions.read("consumer:request-rate", "t", 0) is None


def test_many_audit_positions_move_forward_only(open_session: OpenSession) -> None:
    positions = AuditPositions(open_session())
    wanted = {("t", partition): partition for partition in range(600)}
    positions.write_many("mirror", wanted)
    positions.write_many("mirror", {("t", 0): 5, ("t", 599): 1, ("other", 0): 7})
    assert positions.read_many("mirror", [*wanted, ("other", 0)]) == {**wanted, ("t", 0): 5, ("other", 0): 7}
    with pytest.raises(ValueError, match="-1"):
        positions.write_many("mirror", {("t", 1): -1})


def test_new_positions_of_new_topics_cost_a_read_and_two_creations_each(
    open_session: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    positions = AuditPositions(session)
    positions.write("mirror", "before", 0, 1)
    calls = 0
    call = session.tree._client._call

    def counted(*words: object) -> object:
        nonlocal calls
        calls += 1
        return call(*words)

    costs = []
    for count in (20, 40):
        calls = 0
        with monkeypatch.context() as patched:
            patched.setattr(session.tree._client, "_call", counted)
            positions.write_many("mirror", {(f"topic-{count}-{number}", 0): number for number in range(count)})
        costs.append(calls)
    assert costs == [3 * 20, 3 * 40]


def test_a_wish_to_restate_is_kept_until_it_is_carried_out_and_one_made_again_is_not_lost(open_session: OpenSession) -> None:
    requests = RestateRequests(open_session())
    assert requests.open("mirror") == []
    requests.ask("mirror", "t", 10)
    requests.ask("mirror", "t", 9)
    nine, ten = requests.open("mirror")
    assert (nine.partition, ten.partition, ten.from_offset) == (9, 10, 0)
    moved = requests.move(ten, 500)
    assert moved is not None
    assert requests.open("mirror") == [nine, moved]
    requests.ask("mirror", "t", 10)
    assert requests.move(moved, 600) is None
    assert not requests.end(moved)
    assert [one.from_offset for one in requests.open("mirror")] == [0, 0]
    assert all(requests.end(one) for one in requests.open("mirror"))
    assert requests.open("mirror") == []


def test_two_brokers_taking_blocks_at_once_never_get_the_same_id(open_session: OpenSession) -> None:
    taken: list[range] = []
    lock = threading.Lock()

    def take(blocks: ProducerIdBlocks) -> None:
        for _ in range(25):
            block = blocks.next_block()
            with lock:
                taken.append(block)

    threads = [threading.Thread(target=take, args=(ProducerIdBlocks(open_session(f"b{n}")),)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    starts = sorted(block.start for block in taken)
    assert len(starts) == 50
    assert all(later - earlier == BLOCK for earlier, later in pairwise(starts))


def test_blocks_go_on_after_a_restart_of_broker_and_zookeeper(open_session: OpenSession, own_zookeeper: ZooKeeperProcess) -> None:
    first = ProducerIdBlocks(open_session(hosts=own_zookeeper.address)).next_block()
    own_zookeeper.kill()
    own_zookeeper.start()
    second = ProducerIdBlocks(open_session(hosts=own_zookeeper.address)).next_block()
    assert second.start == first.stop
    assert 0 < second.stop < 1 << 63


def test_a_cluster_has_one_identity_and_two_clusters_two(open_session: OpenSession, zookeeper_address: str) -> None:
    here = [cluster_id(open_session()) for _ in range(2)]
    there = cluster_id(open_session(hosts=f"{zookeeper_address}/another-{here[0].cluster_id}"))
    assert here[0] == here[1]
    assert there.cluster_id != here[0].cluster_id
    assert 0 < there.producer_id_prefix < 1 << 15


def test_a_given_prefix_stands_in_the_high_bits(open_session: OpenSession) -> None:
    assert ProducerIdBlocks(open_session(), prefix=3).next_block() == range(3 << 48, (3 << 48) + BLOCK)
    with pytest.raises(ValueError):
        ProducerIdBlocks(open_session(), prefix=1 << 15)
