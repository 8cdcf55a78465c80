"""What members of a group tell each other, against bytes drawn by hand from Kafka's ConsumerProtocol messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.consumer import group_requests
from headrace.client.fetch.fetched import TopicPartition

SUBSCRIPTION = bytes.fromhex("0000 00000002 0001 61 0003 626363 ffffffff")
ASSIGNMENT = bytes.fromhex("0000 00000001 0001 61 00000002 00000000 00000003 ffffffff")
NAMES = st.text("abc.-_", min_size=1, max_size=20)


def test_a_subscription_has_the_bytes_of_kafkas_clients() -> None:
    assert group_requests.subscription(["a", "bcc"]) == SUBSCRIPTION
    later = b"\x00\x03" + SUBSCRIPTION[2:] + bytes.fromhex("00000000 ffffffff 0000")  # owned partitions, generation, rack
    assert group_requests.topics_of(later) == ["a", "bcc"]


def test_an_assignment_has_the_bytes_of_kafkas_clients() -> None:
    assert group_requests.assignment({"a": [0, 3]}) == ASSIGNMENT
    assert group_requests.partitions_of(ASSIGNMENT) == {TopicPartition("a", 0), TopicPartition("a", 3)}
    assert group_requests.partitions_of(b"") == set()


@pytest.mark.parametrize("cut", range(1, len(ASSIGNMENT) - 4))
def test_a_cut_assignment_is_refused(cut: int) -> None:
    with pytest.raises(Exception, match=r"unpack|would end"):
        group_requests.partitions_of(ASSIGNMENT[:cut])


@given(st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=5), st.integers(1, 9))
def test_each_partition_goes_to_one_member_that_asked_for_its_topic(members: dict[str, list[str]], count: int) -> None:
    topics = {topic for mine in members.values() for topic in mine}
    found = group_requests.assigned(members, {topic: range(count) for topic in topics})
    given_out = [(topic, one) for mine in found.values() for topic, indexes in mine.items() for one in indexes]
    assert sorted(given_out) == sorted((topic, one) for topic in topics for one in range(count))
    assert all(set(mine) <= set(members[member]) for member, mine in found.items())
