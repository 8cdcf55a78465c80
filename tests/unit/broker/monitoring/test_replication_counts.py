"""What is wrong with the cluster's partitions, counted from the catalog. Pure."""

from dataclasses import replace
from uuid import UUID

from headrace.broker.monitoring.replication import ReplicationCounts, ReplicationReader, counted
from headrace.broker.partitions.catalog import BrokerAddress, Catalog, ReplicaView, TopicEntry


def view(leader: int, *in_sync: int, epoch: int = 1) -> ReplicaView:
    return ReplicaView(leader=leader, leader_epoch=epoch, in_sync=in_sync, replicas=(1, 2, 3), targets=(), version=1)


def catalog(states: dict[int, ReplicaView], config: dict[str, str] | None = None, *, topic_id: int = 1) -> Catalog:
    three = (1, 2, 3)
    entry = TopicEntry(
        name="t", partitions=dict.fromkeys(states, three), config=config or {}, topic_id=UUID(int=topic_id), states=states
    )
    single = TopicEntry(name="single", partitions={0: (2,)}, config={}, topic_id=UUID(int=9))
    brokers = {one: BrokerAddress(broker_id=one, host="h", port=one, endpoints={}) for one in (2, 3)}
    return Catalog(topics={"t": entry, "single": single}, brokers=brokers)


def test_each_partition_is_counted_by_its_leader_and_what_has_none_by_all() -> None:
    states = {0: view(1, 1, 2, 3), 1: view(1, 1, 2), 2: view(1, 1), 3: view(2, 2), 4: view(9, 3)}
    seen = catalog(states)
    assert counted(seen, {1, 2, 3}, 1, {}) == ReplicationCounts(3, 2, 1, 1, 1, 0)
    assert counted(seen, {1, 2, 3}, 2, {}) == ReplicationCounts(2, 1, 1, 1, 1, 0)
    assert counted(seen, {1, 3}, 1, {}) == ReplicationCounts(3, 3, 2, 3, 0, 0)


def test_what_the_topic_or_the_broker_sets_decides_how_many_are_too_few() -> None:
    states = {0: view(1, 1, 2)}
    assert counted(catalog(states, {"min.insync.replicas": "3"}), {1, 2, 3}, 1, {}).under_min_insync == 1
    assert counted(catalog(states), {1, 2, 3}, 1, {"min.insync.replicas": "3"}).under_min_insync == 1


def test_each_leader_epoch_counts_once_also_those_between_two_readings_and_none_of_another_topic_of_the_name() -> None:
    seen = catalog({0: view(1, 1, epoch=4)})
    reader = ReplicationReader(lambda: seen, 1, {})
    assert reader.read().leader_changes == 0
    seen = catalog({0: view(2, 1, 2, epoch=7), 1: view(1, 1, epoch=5)})
    assert reader.read().leader_changes == 3
    assert reader.read().leader_changes == 3
    seen = catalog({0: view(2, 1, 2, epoch=8), 1: view(1, 1, epoch=5)}, topic_id=2)
    assert reader.read().leader_changes == 3
    seen = replace(seen, topics={})
    assert reader.read().leader_changes == 3
