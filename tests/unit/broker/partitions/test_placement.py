"""Where a partition is, as clients and operators are told. Pure."""

from uuid import UUID

from headrace.broker.partitions.catalog import ReplicaView, TopicEntry
from headrace.broker.partitions.placement import NO_EPOCH, NO_LEADER, Placement, placement


def view(leader: int, in_sync: tuple[int, ...], *, targets: tuple[int, ...] = ()) -> ReplicaView:
    return ReplicaView(leader=leader, leader_epoch=7, in_sync=in_sync, replicas=(1, 2, 3), targets=targets, version=4)


def entry(partitions: dict[int, tuple[int, ...]], states: dict[int, ReplicaView] | None = None) -> TopicEntry:
    return TopicEntry(name="t", partitions=partitions, config={}, topic_id=UUID(int=1), states=states or {})


def test_the_only_replica_leads_as_long_as_its_broker_is_there() -> None:
    topic = entry({0: (2,)})
    assert placement(topic, 0, {1, 2}) == Placement(2, NO_EPOCH, (2,), (2,), ())
    assert placement(topic, 0, {1}) == Placement(NO_LEADER, NO_EPOCH, (2,), (), (2,))
    assert placement(topic, 1, {1, 2}) is None


def test_a_replicated_partition_is_as_its_state_says_and_a_leader_that_is_not_there_does_not_lead() -> None:
    topic = entry({0: (1, 2, 3)}, {0: view(2, (1, 2))})
    placed = placement(topic, 0, {1, 2, 3})
    assert placed == Placement(2, 7, (1, 2, 3), (1, 2), ())
    assert placed.is_under_replicated
    assert placed.is_led_elsewhere
    assert placement(entry({0: (1, 2, 3)}, {0: view(1, (1, 2))}), 0, {1, 3}) == Placement(1, 7, (1, 2, 3), (1,), (2,))
    gone = placement(topic, 0, {1, 3})
    assert gone == Placement(NO_LEADER, 7, (1, 2, 3), (1, 2), (2,))
    assert not gone.is_led_elsewhere


def test_a_replicated_partition_whose_state_is_not_read_yet_has_no_leader() -> None:
    assert placement(entry({0: (1, 2, 3)}), 0, {1, 2}) == Placement(NO_LEADER, NO_EPOCH, (1, 2, 3), (), (3,))


def test_the_whole_set_under_the_preferred_leader_is_no_problem() -> None:
    placed = placement(entry({0: (1, 2, 3)}, {0: view(1, (1, 2, 3))}), 0, {1, 2, 3})
    assert placed is not None
    assert not placed.is_under_replicated
    assert not placed.is_led_elsewhere
