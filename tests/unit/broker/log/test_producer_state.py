"""Idempotent producers: fresh, duplicate, out of order and fenced batches, and how many producers are remembered."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.log import Duplicate, Fenced, Fresh, OutOfOrder, ProducerStates
from headrace.wire.batch.record_batch import BatchHeader

LARGEST = 2**31 - 1


def header(sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    # A wrong last offset delta on purpose: nothing here may count with it.
    return BatchHeader(0, 100, 0, 0, 0, 99, 0, 0, producer_id, epoch, sequence, count)


@pytest.fixture
def states() -> ProducerStates:
    """Producer 7 has sent ten batches of two records, sequences 0 to 19, at offsets 0, 100, 200, …"""
    states = ProducerStates(100)
    for number in range(10):
        states.record(header(2 * number, 2), 100 * number)
    return states


def test_the_next_sequence_is_fresh(states: ProducerStates) -> None:
    assert states.classify(header(20, 3)) == Fresh()


def test_each_of_the_last_five_batches_is_known_again_with_its_offset(states: ProducerStates) -> None:
    assert [states.classify(header(2 * number, 2)) for number in range(5, 10)] == [
        Duplicate(100 * number) for number in range(5, 10)
    ]


def test_an_older_one_and_one_with_another_count_cannot_be_told_and_are_out_of_order(states: ProducerStates) -> None:
    assert states.classify(header(8, 2)) == OutOfOrder(20, 8)
    assert states.classify(header(18, 1)) == OutOfOrder(20, 18)


def test_a_gap_is_out_of_order(states: ProducerStates) -> None:
    assert states.classify(header(21)) == OutOfOrder(20, 21)


def test_a_lower_epoch_is_fenced_and_a_higher_one_begins_at_zero(states: ProducerStates) -> None:
    states.record(header(0, 4, epoch=2), 5_000)
    assert states.classify(header(20, epoch=1)) == Fenced(2, 1)
    assert states.classify(header(4, epoch=2)) == Fresh()
    assert states.classify(header(7, epoch=3)) == OutOfOrder(0, 7)
    assert states.classify(header(0, epoch=3)) == Fresh()


def test_a_new_epoch_forgets_the_batches_of_the_old_one(states: ProducerStates) -> None:
    states.record(header(0, 2, epoch=1), 5_000)
    assert states.classify(header(18, 2, epoch=1)) == OutOfOrder(2, 18)


def test_a_producer_that_is_not_known_may_begin_anywhere(states: ProducerStates) -> None:
    assert states.classify(header(1_234, producer_id=8)) == Fresh()


def test_batches_without_a_producer_id_are_fresh_and_leave_nothing_behind(states: ProducerStates) -> None:
    states.record(header(-1, producer_id=-1), 0)
    assert states.classify(header(-1, producer_id=-1)) == Fresh()
    assert len(states) == 1


def test_sequences_begin_at_zero_again_after_the_largest(states: ProducerStates) -> None:
    states.record(header(LARGEST - 1, 2, producer_id=9), 0)
    assert states.classify(header(0, producer_id=9)) == Fresh()
    states.record(header(LARGEST - 1, 5, producer_id=10), 0)
    assert states.classify(header(3, producer_id=10)) == Fresh()
    assert states.classify(header(LARGEST - 1, 5, producer_id=10)) == Duplicate(0)


def test_the_longest_idle_producer_is_forgotten_when_there_are_too_many() -> None:
    states = ProducerStates(3)
    for producer_id in (1, 2, 3, 1, 4):
        states.record(header(0, producer_id=producer_id), 0)
    assert [producer_id in states for producer_id in (1, 2, 3, 4)] == [True, False, True, True]
    for producer_id in range(10_000):
        states.record(header(0, producer_id=producer_id), 0)
    assert len(states) == 3


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.data())
@settings(max_examples=100)
def test_whatever_is_sent_again_within_the_last_five_is_never_appended_twice(counts: list[int], data: st.DataObject) -> None:
    states = ProducerStates(10)
    sequence = data.draw(st.integers(0, LARGEST))
    sent: list[BatchHeader] = []
    for number, count in enumerate(counts):
        batch = header(sequence, count)
        assert states.classify(batch) == Fresh()
        states.record(batch, number)
        sent.append(batch)
        sequence = (sequence + count) % 2**31
        again = data.draw(st.integers(max(0, len(sent) - 5), len(sent) - 1))
        assert states.classify(sent[again]) == Duplicate(again)


def test_what_is_due_is_what_the_next_batch_must_begin_with(states: ProducerStates) -> None:
    assert (states.due(7, 0), states.due(7, 1), states.due(8, 0)) == (20, None, None)
    states.record_run(7, [(20 + number, 1, 2_000 + number) for number in range(7)])
    assert states.due(7, 0) == 27
    assert states.classify(header(27)) == Fresh()
    assert [states.classify(header(20 + number)) for number in range(1, 4)] == [
        OutOfOrder(27, 21),
        Duplicate(2_002),
        Duplicate(2_003),
    ]
    states.record(header(LARGEST - 1, 3), 5_000)
    assert states.due(7, 0) == 1, "sequences begin again behind the largest"


def test_a_producer_with_the_id_0_is_one_and_one_that_repeats_its_epoch_is_not_fenced() -> None:
    states = ProducerStates(100)
    states.record(header(0, producer_id=0, epoch=3), 10)
    assert 0 in states
    assert states.classify(header(0, producer_id=0, epoch=3)) == Duplicate(10)
    assert states.classify(header(1, producer_id=0, epoch=3)) == Fresh()
    assert states.classify(header(0, producer_id=0, epoch=2)) == Fenced(3, 2)
    states.record(header(5, producer_id=0, epoch=3)._replace(base_sequence=-1), 20)
    assert states.due(0, 3) == 1, "a batch without a sequence leaves nothing behind"
