"""What a member gives back and claims. Pure."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.consumer.zk_rebalance import moves
from headrace.client.fetch.fetched import TopicPartition

from ..fetched_partitions import T0, T1

sets = st.sets(st.builds(TopicPartition, st.just("t"), st.integers(0, 6)))


def test_what_stays_is_neither_given_back_nor_claimed() -> None:
    todo = moves({T0, T1}, {T0, T1}, {T0})
    assert (todo.give_back, todo.claim) == ([T1], [])


def test_a_claim_whose_answer_was_lost_is_given_back_when_it_is_not_wanted_any_more() -> None:
    todo = moves({T0}, set(), set())
    assert (todo.give_back, todo.claim) == ([T0], [])


@settings(max_examples=200)
@given(sets, sets, sets)
def test_afterwards_exactly_its_own_are_held(
    held: set[TopicPartition], adopted: set[TopicPartition], own: set[TopicPartition]
) -> None:
    held = held | adopted
    todo = moves(held, adopted, own)
    assert (held - set(todo.give_back)) | set(todo.claim) == own
    assert not set(todo.give_back) & set(todo.claim)
    assert not adopted & set(todo.claim)
