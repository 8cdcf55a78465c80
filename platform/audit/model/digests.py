"""A digest of the records that differ, so that a person's word is on these records and not on their number. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from .comparison import Piece
from .facts import Difference


def digest_of(pieces: Iterable[Piece]) -> str:
    """Return the digest of the records, however they are cut into pieces."""
    rows = sorted(
        (
            piece.finding.value,
            -1 if piece.first_offset is None else piece.first_offset,
            *(-1 if one is None else one for one in (piece.producer_id, piece.producer_epoch, piece.first_sequence)),
            piece.count,
        )
        for piece in pieces
    )
    joined: list[tuple[str, int, int, int, int, int]] = []
    for row in rows:
        if joined and _goes_on(joined[-1], row):
            joined[-1] = (*joined[-1][:5], joined[-1][5] + row[5])
        else:
            joined.append(row)
    return blake2b(repr(joined).encode(), digest_size=8).hexdigest()


def digest_of_tier(differences: Sequence[Difference]) -> str:
    """Return the digest of all that differs at one tier."""
    return _together((one.partition, one.digest) for one in differences)


def digest_of_words(differences: Iterable[Mapping[str, Any]]) -> str:
    """Return the same of differences as `GET /api/completeness` gives them; empty where an older service gave none."""
    named = [(one["partition"], one.get("digest", "")) for one in differences]
    return _together(named) if all(digest for _, digest in named) else ""


def _together(named: Iterable[tuple[int, str]]) -> str:
    return blake2b(repr(sorted(named)).encode(), digest_size=8).hexdigest()


def _goes_on(one: tuple[str, int, int, int, int, int], behind: tuple[str, int, int, int, int, int]) -> bool:
    count = one[5]
    at_offset = behind[1] == (-1 if one[1] == -1 else one[1] + count)
    at_sequence = behind[4] == (-1 if one[4] == -1 else one[4] + count)
    return (
        (one[0], one[2], one[3]) == (behind[0], behind[2], behind[3])
        and at_offset
        and at_sequence
        and (one[1], one[4]) != (-1, -1)
    )
