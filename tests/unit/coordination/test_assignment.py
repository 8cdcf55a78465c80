"""The range assignment: every partition once, shares even, the same answer for every member."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordination.assignment import assign, assigned_to

members = st.lists(st.text("abc-0123456789", min_size=1, max_size=6), unique=True, max_size=7)
partitions = st.lists(st.integers(0, 60), unique=True, max_size=40)


def test_a_remainder_goes_to_the_first_consumers_as_in_0_7_2() -> None:
    assert assign([0, 1, 2, 3, 4], ["b", "a"]) == {"a": [0, 1, 2], "b": [3, 4]}


def test_more_consumers_than_partitions_leaves_the_last_ones_idle() -> None:
    assert assign([0], ["a", "b"]) == {"a": [0], "b": []}


def test_nobody_there_owns_nothing() -> None:
    assert assign([0, 1], []) == {}
    assert assign([], ["a"]) == {"a": []}


@settings(max_examples=200)
@given(partitions, members, st.randoms())
def test_every_partition_has_one_owner_and_shares_differ_by_at_most_one(numbers: list[int], names: list[str], random) -> None:  # type: ignore[no-untyped-def]
    mapping = assign(numbers, names)
    if names:
        assert sorted(partition for share in mapping.values() for partition in share) == sorted(numbers)
        sizes = [len(mapping[name]) for name in sorted(names)]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)
    random.shuffle(numbers)
    random.shuffle(names)
    assert assign(numbers, names) == mapping


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(["c1", "c2", "c3", "c11"]), st.dictionaries(st.sampled_from(["t", "u"]), st.integers(0, 3))),
    st.dictionaries(st.sampled_from(["t", "u"]), st.lists(st.integers(0, 9), unique=True)),
)
def test_over_all_topics_no_partition_has_two_owners_and_none_is_left_over(
    subscriptions: dict[str, dict[str, int]], topics: dict[str, list[int]]
) -> None:
    owned = [pair for member in subscriptions for pair in assigned_to(member, subscriptions, topics)]
    assert len(owned) == len(set(owned))
    read = {topic for subscription in subscriptions.values() for topic, streams in subscription.items() if streams}
    assert set(owned) == {(topic, partition) for topic in topics.keys() & read for partition in topics[topic]}


def test_a_consumer_with_two_streams_gets_two_shares() -> None:
    subscriptions = {"a": {"t": 2}, "b": {"t": 1}}
    assert assigned_to("a", subscriptions, {"t": [0, 1, 2]}) == {("t", 0), ("t", 1)}
    assert assigned_to("b", subscriptions, {"t": [0, 1, 2]}) == {("t", 2)}


def test_one_who_is_not_in_the_group_owns_nothing() -> None:
    assert assigned_to("stranger", {"a": {"t": 1}}, {"t": [0]}) == set()
