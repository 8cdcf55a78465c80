"""Which replicas are wrong about a range."""

from itertools import permutations

import pytest

from headrace.broker.log import BadRange, RangeDigest
from headrace.broker.log.segment.range_digest import BatchDigest
from headrace.broker.replicas.scrub_vote import DIFFERS, judge

GOOD = tuple(BatchDigest(at, at + 10, b"good %d" % at) for at in range(0, 50, 10))
FAILED = BadRange(20, 30, "its CRC fails")


def whole() -> RangeDigest:
    return RangeDigest(GOOD)


def damaged(bad: BadRange = FAILED) -> RangeDigest:
    return RangeDigest(tuple(one for one in GOOD if not bad.from_offset <= one.position < bad.to_offset), (bad,))


def other(word: bytes = b"other", at: int = 20) -> RangeDigest:
    return RangeDigest(tuple(one._replace(head=word) if one.position == at else one for one in GOOD))


def test_equal_replicas_are_right() -> None:
    assert judge({1: whole(), 2: whole(), 3: whole()}, 3) == ({}, ())


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_replica_whose_batch_fails_its_own_crc_is_wrong(order: tuple[int, int, int]) -> None:
    bad, *good = order
    assert judge({bad: damaged(), **{one: whole() for one in good}}, 3) == ({bad: (FAILED,)}, ())


def test_it_is_wrong_where_no_other_answers_and_where_all_are_damaged() -> None:
    assert judge({1: damaged()}, 3) == ({1: (FAILED,)}, ())
    assert judge({1: damaged(), 2: damaged(), 3: damaged()}, 3) == (dict.fromkeys((1, 2, 3), (FAILED,)), ())


def test_where_all_crcs_hold_the_majority_of_all_replicas_is_right() -> None:
    assert judge({1: whole(), 2: other(), 3: whole()}, 3) == ({2: (BadRange(20, 30, DIFFERS),)}, ())
    assert judge({1: other(), 2: whole(), 3: other()}, 3) == ({2: (BadRange(20, 30, DIFFERS),)}, ())


@pytest.mark.parametrize(
    ("answers", "count"),
    [
        ({1: whole(), 2: other()}, 2),
        ({1: whole(), 2: other()}, 3),
        ({1: whole(), 2: other(), 3: other(b"third")}, 3),
        ({1: whole(), 2: whole(), 3: other(), 4: other()}, 4),
        ({1: whole(), 2: other(), 3: damaged()}, 3),
    ],
)
def test_without_a_majority_nothing_is_changed(answers: dict[int, RangeDigest], count: int) -> None:
    verdict = judge(answers, count)
    assert verdict.undecided == ((20, 30),)
    assert not any(bad.reason == DIFFERS for ranges in verdict.wrong.values() for bad in ranges)


def test_a_damaged_replica_is_wrong_elsewhere_too() -> None:
    both = RangeDigest(tuple(one for one in other(at=40).batches if one.position != 20), (FAILED,))
    assert judge({1: whole(), 2: both, 3: whole()}, 3) == ({2: (FAILED, BadRange(40, 50, DIFFERS))}, ())


def test_batches_of_another_shape_are_not_overwritten() -> None:
    """Two logs that hold other batches at a place were written by different leaders: no flipped bit does that."""
    shape = RangeDigest((*GOOD[:2], BatchDigest(20, 40, b"longer"), GOOD[4]))
    assert judge({1: whole(), 2: shape, 3: whole()}, 3) == ({}, ((20, 40),))
    missing = RangeDigest(GOOD[:2])
    assert judge({1: whole(), 2: missing, 3: whole()}, 3) == ({}, ((20, 50),))
