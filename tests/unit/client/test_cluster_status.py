"""What is wrong with a cluster, and what to do. Pure."""

import pytest

from headrace.client.cluster_status import ClusterStatus, Kind, cluster_status, topics_to_ask
from headrace.client.topic_admin import ClusterDescription, PartitionPlace, TopicDescription


def cluster(*partitions: PartitionPlace, live: tuple[int, ...] = (1, 2, 3)) -> ClusterDescription:
    topic = TopicDescription(name="clicks", partitions=partitions)
    return ClusterDescription(cluster_id="c", brokers={one: f"host:{one}" for one in live}, topics=(topic,))


def place(leader: int, *in_sync: int, replicas: tuple[int, ...] = (1, 2, 3), partition: int = 0) -> PartitionPlace:
    return PartitionPlace(partition=partition, leader=leader, replicas=replicas, in_sync_replicas=in_sync)


def kinds(status: ClusterStatus) -> list[Kind]:
    return [one.kind for one in status.problems]


def test_a_whole_cluster_is_well_and_nothing_is_asked() -> None:
    whole = cluster(place(1, 1, 2, 3), place(2, 2, replicas=(2,), partition=1))
    status = cluster_status(whole, {})
    assert (status.is_well, status.problems, topics_to_ask(whole)) == (True, (), [])


@pytest.mark.parametrize(
    ("one", "live", "min_insync", "kind", "remedy"),
    [
        (place(1, 1, 2), (1, 2), 2, Kind.UNDER_REPLICATED, "start broker 3"),
        (place(1, 1, 2), (1, 2, 3), 2, Kind.UNDER_REPLICATED, "look at the log of broker 3"),
        (place(1, 1), (1,), 2, Kind.UNDER_MIN_INSYNC, "start brokers 2, 3"),
        (place(-1, 3), (1, 2), 2, Kind.NO_LEADER, "start one of broker 3"),
        (place(-1, 2, 3), (1, 2), 2, Kind.NO_LEADER, "takes over within seconds"),
        (place(-1, replicas=(3,)), (1, 2), 1, Kind.NO_LEADER, "it has the only replica"),
    ],
)
def test_each_fault_has_its_kind_and_its_remedy(
    one: PartitionPlace, live: tuple[int, ...], min_insync: int, kind: Kind, remedy: str
) -> None:
    status = cluster_status(cluster(one, live=live), {"clicks": min_insync})
    assert not status.is_well
    assert kinds(status) == [kind]
    assert remedy in status.problems[0].remedy


def test_a_broker_that_is_not_there_is_named_with_the_replicas_that_it_keeps() -> None:
    status = cluster_status(cluster(place(1, 1, 2), place(2, 1, 2, partition=1), live=(1, 2)), {"clicks": 2})
    assert status.missing_brokers == {3: 2}


def test_another_leader_than_the_preferred_one_is_shown_and_is_no_fault() -> None:
    status = cluster_status(cluster(place(2, 1, 2, 3)), {})
    assert kinds(status) == [Kind.LED_ELSEWHERE]
    assert status.is_well


def test_more_replicas_are_not_asked_for_than_there_are() -> None:
    two = cluster(place(1, 1, replicas=(1, 2)))
    assert topics_to_ask(two) == ["clicks"]
    assert kinds(cluster_status(two, {"clicks": 3})) == [Kind.UNDER_MIN_INSYNC]
    assert cluster_status(two, {"clicks": 3}).problems[0].min_insync_replicas == 2


def test_the_worst_comes_first() -> None:
    status = cluster_status(
        cluster(place(1, 1, 2), place(-1, 3, partition=1), place(1, 1, partition=2), live=(1, 2)), {"clicks": 2}
    )
    assert kinds(status) == [Kind.NO_LEADER, Kind.UNDER_MIN_INSYNC, Kind.UNDER_REPLICATED]
