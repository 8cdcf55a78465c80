"""Which replicas are wrong about a range of offsets. Pure.

A batch that fails its own CRC is wrong. Where all CRCs hold and the bytes differ, the bytes that more than half of the replicas
have are right. Without such a majority nothing is changed: it is reported.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ..log import BadRange, RangeDigest
from ..log.segment.range_digest import BatchDigest

DIFFERS = "its bytes differ from those that most replicas have"


class Verdict(NamedTuple):
    """By broker, in order; offsets are half-open."""

    wrong: Mapping[int, tuple[BadRange, ...]]
    undecided: tuple[tuple[int, int], ...]


def judge(answers: Mapping[int, RangeDigest], replica_count: int) -> Verdict:
    """Return who is wrong. `answers` are all about the same range. Replicas that did not answer give no vote."""
    wrong: dict[int, list[BadRange]] = {one: list(digest.damaged) for one, digest in answers.items() if digest.damaged}
    undecided: list[tuple[int, int]] = []
    rows = {one: {batch.position: batch for batch in digest.batches} for one, digest in answers.items()}
    for position in sorted({position for row in rows.values() for position in row}):
        votes: dict[BatchDigest | None, list[int]] = {}
        for one, row in rows.items():
            if not any(bad.from_offset <= position < bad.to_offset for bad in answers[one].damaged):
                votes.setdefault(row.get(position), []).append(one)
        if len(votes) <= 1:
            continue
        right = next((vote for vote, brokers in votes.items() if 2 * len(brokers) > replica_count), None)
        end = max(vote.next_offset for vote in votes if vote is not None)
        losers = {one: vote for vote, brokers in votes.items() if vote != right for one in brokers}
        if right is None or any(vote is None or vote.next_offset != right.next_offset for vote in losers.values()):
            undecided.append((position, end))
            continue
        for one in losers:
            wrong.setdefault(one, []).append(BadRange(position, right.next_offset, DIFFERS))
    return Verdict({one: tuple(sorted(ranges)) for one, ranges in wrong.items()}, _joined(undecided))


def _joined(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return tuple(joined)
