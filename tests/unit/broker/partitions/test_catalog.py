"""Which brokers keep a topic's new partitions. Pure."""

import pytest

from headrace.broker.errors import NotMorePartitions
from headrace.broker.partitions.catalog import extension


def test_new_partitions_go_on_round_the_brokers_where_the_first_began() -> None:
    assert extension("t", {0: (2,), 1: (3,)}, 4, [1, 2, 3], None) == {2: (1,), 3: (2,)}
    assert extension("t", {0: (9,)}, 2, [1, 2], None) == {1: (2,)}
    assert extension("t", {0: (1,)}, 2, [1], [(1,)]) == {1: (1,)}


@pytest.mark.parametrize(("count", "replicas"), [(1, None), (0, None), (3, [(1,)])])
def test_partitions_are_only_added_and_each_has_its_place(count: int, replicas: list[tuple[int, ...]] | None) -> None:
    with pytest.raises(NotMorePartitions):
        extension("t", {0: (1,)}, count, [1], replicas)
