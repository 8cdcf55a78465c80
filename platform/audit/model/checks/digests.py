"""A digest of the records that differ, so that an operator's word is on these records and not on their number. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from ..comparison import Piece
from ..facts import Difference


def digest_of(pieces: Iterable[Piece]) -> str:
    """Return the digest of the records, however they are cut into pieces."""
    joined: list[_Part] = []
    for part in sorted(map(_part, pieces)):
        if joined and joined[-1].continues_with(part):
            joined[-1] = joined[-1]._replace(length=joined[-1].length + part.length)
        else:
            joined.append(part)
    return blake2b(repr([tuple(part) for part in joined]).encode(), digest_size=8).hexdigest()


def digest_of_tier(differences: Sequence[Difference]) -> str:
    """Return the digest of all that differs at one tier."""
    return _together((one.partition, one.digest) for one in differences)


def digest_of_words(differences: Iterable[Mapping[str, Any]]) -> str:
    """Return the same of differences as `GET /api/completeness` gives them; empty where an older service gave none."""
    named = [(one["partition"], one.get("digest", "")) for one in differences]
    return _together(named) if all(digest for _, digest in named) else ""


def _together(named: Iterable[tuple[int, str]]) -> str:
    return blake2b(repr(sorted(named)).encode(), digest_size=8).hexdigest()


class _Part(NamedTuple):
    """Records one after another; -1 for what they do not have."""

    finding: str
    offset: int
    producer_id: int
    epoch: int
    sequence: int
    length: int

    def continues_with(self, other: "_Part") -> bool:
        if (self.finding, self.producer_id, self.epoch) != (other.finding, other.producer_id, other.epoch):
            return False
        offset = -1 if self.offset == -1 else self.offset + self.length
        sequence = -1 if self.sequence == -1 else self.sequence + self.length
        return (offset, sequence) == (other.offset, other.sequence) != (-1, -1)


def _part(piece: Piece) -> _Part:
    offset, producer_id, epoch, sequence = (
        -1 if one is None else one for one in (piece.first_offset, piece.producer_id, piece.producer_epoch, piece.first_sequence)
    )
    return _Part(piece.finding.value, offset, producer_id, epoch, sequence, piece.count)
