"""What the live log held when it was read first, and does not hold any more: its tail was cut, or other bytes are there. Pure.

A tier's last reading counts, so without this the records would be gone from the books with the log, and what the mirror had
copied of them would look like the mirror's own surplus. In an entry of the live log the part `altered`, which no other use is
made of there, keeps them: offset, count and CRC. A reading that finds them again takes them out.
"""

from collections.abc import Iterable, Iterator, Sequence

from ..comparison import Claims, Finding, Numbers, Piece, sweep
from ..facts import WindowFacts
from ..messages import CORRUPT, Skipped
from ..packed_rows import Row
from ..tiers import LIVE, QUARANTINE

REMEMBERED = (LIVE, QUARANTINE)
"""Of these, what a reading found is known even if a later one does not find it."""


def contradicted(old: Iterable[Row], new: Iterable[Row], skipped: Iterable[Skipped] = ()) -> list[Row]:
    """Return the rows, or parts of them, that a new reading of the same offsets does not find. What has expired since, or was
    deleted, is not contradicted by it.
    """
    lost: list[Row] = []
    gone = [(one.from_offset, one.to_offset - one.from_offset, 0) for one in skipped if one.reason != CORRUPT]
    for start, end, (before, now, let_go) in sweep(old, new, gone):
        if let_go:
            continue
        found = {row[2] for row in now}
        lost += [(start, end - start, crc) for crc in dict.fromkeys(row[2] for row in before) if crc not in found]
    return lost


def former_rows(window: WindowFacts, partition: int) -> list[Row]:
    """Return what live held once in the partition."""
    entry = window.found.get(LIVE, {}).get(partition)
    return [] if entry is None else list(entry.altered)


def lost_from_live(window: WindowFacts, claims: dict[int, dict[Numbers, Claims]]) -> Iterator[tuple[int, Piece]]:
    """Yield (partition, records) that live has lost and of which no producer speaks: by those of a producer their absence is
    found by their numbers.
    """
    for partition, entry in sorted(window.found.get(LIVE, {}).items()):
        if not entry.altered:
            continue
        known = {row[2] for row in entry.held}
        for said in claims.get(partition, {}).values():
            known.update(row[2] for row in (*said.acknowledged, *said.uncertain, *said.renumbered))
        for first, count, crc in entry.altered:
            if crc not in known:
                yield partition, Piece(Finding.MISSING, first, count)


def beside_former(pieces: Iterable[Piece], former: Sequence[Row]) -> Iterator[Piece]:
    """Yield the pieces without the offsets that live held once: these are told already."""
    for piece in pieces:
        rows = [(piece.first_offset or 0, piece.count, -1)]
        for start, end, (mine, told) in sweep(rows, former):
            if mine and not told:
                yield piece._replace(first_offset=start, count=end - start)
