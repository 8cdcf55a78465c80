"""Where the replicas and the leaderships of a drained broker go."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.draining import plan_leaders, plan_replicas
from headrace.client.reassignment import Brokers, Partition
from headrace.client.topic_admin import PartitionPlace

DRAINED = 1
Places = dict[Partition, PartitionPlace]


def place(*replicas: int, leader: int | None = None, in_sync: Brokers | None = None) -> PartitionPlace:
    members = replicas if in_sync is None else in_sync
    return PartitionPlace(
        partition=0, leader=replicas[0] if leader is None else leader, replicas=replicas, in_sync_replicas=members
    )


def placed(*places: PartitionPlace) -> Places:
    return {("t", index): one for index, one in enumerate(places)}


@st.composite
def clusters(draw: st.DrawFn, *, fewest: int = 1) -> tuple[list[int], Places]:
    live = list(range(1, draw(st.integers(2, 6)) + 1))
    lists = st.lists(st.sampled_from(live), min_size=min(fewest, len(live)), unique=True)
    places = []
    for replicas in draw(st.lists(lists, max_size=30)):
        in_sync = tuple(one for one in replicas if draw(st.booleans()))
        leader = draw(st.sampled_from(in_sync)) if in_sync else -1
        places.append(place(*replicas, leader=leader, in_sync=in_sync))
    return live, placed(*places)


@given(clusters())
def test_a_moved_partition_keeps_its_count_and_order_and_leaves_the_drained_broker(cluster: tuple[list[int], Places]) -> None:
    live, places = cluster
    plan = plan_replicas(places, DRAINED, live)
    assert plan.moves.keys() | plan.stuck.keys() == {one for one, it in places.items() if DRAINED in it.replicas}
    assert not plan.moves.keys() & plan.stuck.keys()
    for partition, after in plan.moves.items():
        before = places[partition].replicas
        assert len(set(after)) == len(after) == len(before)
        assert set(after) <= set(live) - {DRAINED}
        assert [new for old, new in zip(before, after, strict=True) if old != DRAINED] == [o for o in before if o != DRAINED]


@given(clusters())
def test_no_other_choice_for_one_replica_makes_the_brokers_more_even(cluster: tuple[list[int], Places]) -> None:
    live, places = cluster
    moves = plan_replicas(places, DRAINED, live).moves
    counts = Counter(each for one, it in places.items() for each in moves.get(one, it.replicas))
    for partition, after in moves.items():
        (new,) = set(after) - set(places[partition].replicas)
        for other in set(live) - {DRAINED} - set(after) - set(places[partition].replicas):
            assert counts[new] <= counts[other] + 1, f"{partition} could be on {other}"


@given(st.integers(1, 6), st.integers(0, 50))
def test_partitions_of_one_replica_are_spread_at_most_one_apart(others: int, partitions: int) -> None:
    live = range(1, others + 2)
    moves = plan_replicas(placed(*[place(DRAINED)] * partitions), DRAINED, live).moves
    counts = Counter(after[0] for after in moves.values())
    spread = [counts[one] for one in live if one != DRAINED]
    assert sum(spread) == partitions
    assert max(spread) - min(spread) <= 1


def test_a_partition_that_is_on_every_other_broker_stays_and_the_reason_is_given() -> None:
    plan = plan_replicas(placed(place(1, 2, 3), place(2, 1)), DRAINED, [1, 2, 3])
    assert plan.moves == {("t", 1): (2, 3)}
    assert "it has 3 replicas" in plan.stuck["t", 0]
    assert "start another broker" in plan.stuck["t", 0]


def test_a_partition_without_leader_is_not_moved() -> None:
    plan = plan_replicas(placed(place(1, leader=-1, in_sync=())), DRAINED, [2, 3])
    assert plan.moves == {}
    assert "it has no leader" in plan.stuck["t", 0]


@given(clusters(fewest=2))
def test_leaderships_move_by_order_alone_and_to_a_replica_in_sync(cluster: tuple[list[int], Places]) -> None:
    _, places = cluster
    plan = plan_leaders(places, DRAINED)
    concerned = {one for one, it in places.items() if DRAINED in it.replicas and DRAINED in (it.leader, it.replicas[0])}
    assert plan.moves.keys() | plan.stuck.keys() == concerned
    for partition, after in plan.moves.items():
        it = places[partition]
        assert sorted(after) == sorted(it.replicas)
        assert after[0] in it.in_sync_replicas
        assert after[-1] == DRAINED
        if it.replicas[0] != DRAINED and it.replicas[0] in it.in_sync_replicas:
            assert after[0] == it.replicas[0], "the preferred leader stays"


def test_leaderships_are_spread_and_what_cannot_move_is_named() -> None:
    plan = plan_leaders(placed(place(1, 2, 3), place(1, 2, 3), place(1), place(1, 2, in_sync=(1,)), place(2, 1)), DRAINED)
    assert plan.moves == {("t", 0): (3, 2, 1), ("t", 1): (2, 3, 1)}
    assert "the only replica" in plan.stuck["t", 2]
    assert "start the brokers of [2]" in plan.stuck["t", 3]


def test_a_list_in_order_is_planned_again_so_that_a_repeated_drain_elects() -> None:
    assert plan_leaders(placed(place(2, 1, leader=1)), DRAINED).moves == {("t", 0): (2, 1)}
