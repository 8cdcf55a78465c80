"""Which brokers keep a topic's new partitions. Pure."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.errors import NotEnoughBrokers, NotMorePartitions
from headrace.broker.partitions.catalog import assignment, extension


def test_new_partitions_go_on_round_the_brokers_where_the_first_began() -> None:
    assert extension("t", {0: (2,), 1: (3,)}, 4, [1, 2, 3], None) == {2: (1,), 3: (2,)}
    assert extension("t", {0: (9,)}, 2, [1, 2], None) == {1: (2,)}
    assert extension("t", {0: (1,)}, 2, [1], [(1,)]) == {1: (1,)}


def test_new_partitions_have_as_many_replicas_as_the_others() -> None:
    assert extension("t", {0: (2, 3)}, 3, [1, 2, 3], None) == {1: (3, 1), 2: (1, 2)}
    with pytest.raises(NotEnoughBrokers, match=r"replication factor 2 and the cluster has 1 live brokers \(\[1\]\)"):
        extension("t", {0: (1, 2)}, 2, [1], None)


@pytest.mark.parametrize(("count", "replicas"), [(1, None), (0, None), (3, [(1,)])])
def test_partitions_are_only_added_and_each_has_its_place(count: int, replicas: list[tuple[int, ...]] | None) -> None:
    with pytest.raises(NotMorePartitions):
        extension("t", {0: (1,)}, count, [1], replicas)


def test_three_replicas_on_three_brokers_are_spread_as_in_kafka() -> None:
    rows = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2), 4: (2, 1, 3), 5: (3, 2, 1)}
    assert assignment(6, [3, 1, 2], replication_factor=3) == rows


@st.composite
def wanted(draw: st.DrawFn) -> tuple[int, list[int], int, int]:
    ids = draw(st.lists(st.integers(0, 1_000), min_size=1, max_size=8, unique=True))
    return draw(st.integers(1, 60)), ids, draw(st.integers(0, 200)), draw(st.integers(1, len(ids)))


@given(wanted())
def test_replicas_are_on_distinct_brokers_and_each_broker_has_as_many_as_any_other_at_each_place(
    asked: tuple[int, list[int], int, int],
) -> None:
    count, ids, first, factor = asked
    assigned = assignment(count, ids, first=first, replication_factor=factor)
    assert sorted(assigned) == list(range(count))
    for replicas in assigned.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(ids)
    for place in range(factor):
        held = Counter(replicas[place] for replicas in assigned.values())
        assert max(held.values()) - min(held[broker] for broker in ids) <= 1


@given(st.integers(3, 7))
def test_the_followers_of_one_leader_are_spread_over_all_others(brokers: int) -> None:
    assigned = assignment(brokers * (brokers - 1), range(brokers), replication_factor=2)
    assert Counter(assigned.values()) == {(one, other): 1 for one in range(brokers) for other in range(brokers) if one != other}
