"""What became of a transaction, concluded from the rows."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.fetch.fetched import TopicPartition
from headrace.reader.positions.protocol import Move, Position
from headrace.reader.positions.settling import outcome_of

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
MOVES = {A: Move(Position(10, 3), 20), B: Move(Position(5, 1), 6)}


def test_rows_that_moved_say_committed_and_rows_that_did_not_say_rolled_back() -> None:
    assert outcome_of(MOVES, {A: Position(20, 3), B: Position(6, 1)}) == (True, frozenset())
    assert outcome_of(MOVES, {A: Position(10, 3), B: Position(5, 1)}) == (False, frozenset())


def test_a_row_under_another_fence_says_nothing_but_that_it_is_anothers() -> None:
    assert outcome_of(MOVES, {A: Position(20, 4), B: Position(6, 1)}) == (True, {A})
    assert outcome_of(MOVES, {A: Position(20, 4), B: Position(5, 1)}) == (False, {A})
    assert outcome_of(MOVES, {A: Position(20, 4), B: Position(6, 2)}) == (False, {A, B})
    assert outcome_of(MOVES, {B: Position(6, 1)}) == (True, {A}), "a row that is gone"


@given(st.sets(st.sampled_from([A, B])), st.booleans())
def test_takeovers_after_the_end_hide_it_only_of_their_own_partitions(taken: set[TopicPartition], is_committed: bool) -> None:
    found = {
        name: Position(to if is_committed else held.next_offset, held.fence + (name in taken))
        for name, (held, to) in MOVES.items()
    }
    assert outcome_of(MOVES, found) == (is_committed and taken != {A, B}, taken)
