"""Which stream of a member reads which of its partitions. Pure."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.fetch.fetched import TopicPartition
from headrace.client.streams.placement import placed
from headrace.coordination.assignment import assigned_to

counts = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 12), min_size=1)


@settings(max_examples=200)
@given(st.sets(st.integers(0, 300)), st.integers(1, 12))
def test_each_partition_is_in_exactly_one_stream_and_streams_differ_by_one_at_most(partitions: set[int], streams: int) -> None:
    own = {TopicPartition("t", partition) for partition in partitions}
    found = placed(own, {"t": list(range(streams))})
    assert found.keys() == own
    sizes = [list(found.values()).count(stream) for stream in range(streams)]
    assert max(sizes) - min(sizes) <= 1
    order = [found[name] for name in sorted(own)]
    assert order == sorted(order), "ranges, in the streams' order"


@settings(max_examples=200)
@given(counts, st.integers(0, 60))
def test_it_is_what_sharing_among_all_streams_of_the_group_gives(members: dict[str, int], partitions: int) -> None:
    group = {member: {"t": streams} for member, streams in members.items()}
    # The independent count: every stream of the group in its order, the first `extra` of them with one partition more.
    slots = [(member, stream) for member in sorted(members) for stream in range(members[member])]
    quota, extra = divmod(partitions, len(slots))
    ends = iter(range(partitions))
    expected = {slot: [next(ends) for _ in range(quota + (index < extra))] for index, slot in enumerate(slots)}
    for member, streams in members.items():
        own = {TopicPartition(*name) for name in assigned_to(member, group, {"t": range(partitions)})}
        found = placed(own, {"t": list(range(streams))})
        for stream in range(streams):
            assert sorted(name.partition for name, at in found.items() if at == stream) == expected[member, stream]


def test_streams_of_several_topics_have_their_own_numbers() -> None:
    own = {TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("c", 0)}
    assert placed(own, {"a": [0, 1], "b": [2]}) == {
        TopicPartition("a", 0): 0,
        TopicPartition("a", 1): 1,
        TopicPartition("b", 0): 2,
    }
