"""Which records are missing, doubled or altered between two tiers, by a sweep over intervals. Pure; never by sums.

Every record is an offset, or a sequence number of one producer id. A loss and a double are two numbers that never cancel, since
they lie at two places of the number line. Where a tier's content is known as batches, equal CRCs say that it is the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from .messages import EXPIRED, SEND_FAILED, SKIPPED_BY_SEEK
from .packed_rows import SEQUENCES, Row

Numbers = tuple[int, int]
"""(producer id, producer epoch)."""


class Finding(StrEnum):
    """What can be wrong with records, or can be said of them."""

    MISSING = "missing"
    DOUBLED = "doubled"
    ALTERED = "altered"
    EXPIRED = EXPIRED
    """Gone from the log before the tier could read it."""
    SKIPPED_BY_SEEK = SKIPPED_BY_SEEK
    """The tier's reader was told to continue behind it."""
    UNREAD = "unread"
    """In the tier before, and where nobody could read this tier: nothing is proven."""
    SEND_FAILED = SEND_FAILED
    """Given up, and not stored."""
    UNREPORTED = "unreported"
    """Stored under an announced producer id, and no report speaks of it."""


class Piece(NamedTuple):
    """Records one after another of which the same is true."""

    finding: Finding
    first_offset: int | None
    """None for records that stand nowhere in the log."""
    count: int  # type: ignore[assignment]
    producer_id: int | None = None
    producer_epoch: int | None = None
    first_sequence: int | None = None
    crc: int = -1
    """Of the batch that the producer sent, for records that are missing in the live log."""
    is_stray: bool = False
    """Of a doubled record: the tier before does not hold it at all."""


def sweep(*layers: Iterable[Row]) -> Iterator[tuple[int, int, list[list[Row]]]]:
    """Yield (from, to, rows) of every stretch of numbers that the same rows name, in order; `rows` has a list for each layer."""
    borders: list[tuple[int, bool, int, Row]] = []
    for layer, rows in enumerate(layers):
        for row in rows:
            if row[1] > 0:
                borders.append((row[0], True, layer, row))
                borders.append((row[0] + row[1], False, layer, row))
    borders.sort(key=lambda border: border[0])
    active: list[list[Row]] = [[] for _ in layers]
    behind = 0
    for at, begins, layer, row in borders:
        if at > behind and any(active):
            yield behind, at, active
        behind = at
        if begins:
            active[layer].append(row)
        else:
            active[layer].remove(row)


def differ(before: Iterable[Row], mine: Iterable[Row]) -> bool:
    """Return whether any known CRC of `mine` is none of those of `before`; one that is unknown (-1) agrees with all."""
    known = {row[2] for row in before}
    return -1 not in known and any(row[2] != -1 and row[2] not in known for row in mine)


def compare_offsets(
    before: Iterable[Row],
    mine: Iterable[Row],
    *,
    altered: Iterable[Row] = (),
    unread_before: Iterable[Row] = (),
    once: Iterable[Row] = (),
    gone: Iterable[Row] = (),
    gone_is: Finding = Finding.EXPIRED,
) -> list[Piece]:
    """Return where `mine` differs from the tier before it, offset by offset.

    `mine` is what the tier holds or has put in quarantine, `altered` what it says itself that it changed. In `unread_before`
    it is unknown what the tier before held: what the tier has there came from somewhere. `once` is what the tier before held and
    does not any more: the tier may have it from then. What is missing in `gone` is said to be `gone_is`. A record that the tier
    before holds n times may stand here once to n times.
    """
    pieces: list[Piece] = []
    for start, end, (held, found, changed, unread, lost, former) in sweep(before, mine, altered, unread_before, gone, once):
        count = end - start
        if former and held:
            found = _without(found, former, held)
        if held and not found:
            pieces.append(Piece(gone_is if lost else Finding.MISSING, start, count))
        expected = len(held) or (1 if unread or former else 0)
        pieces += [Piece(Finding.DOUBLED, start, count, is_stray=not expected)] * (len(found) - expected)
        origin = held if held or unread else former
        if origin and found and (changed or differ(origin, found)):
            pieces.append(Piece(Finding.ALTERED, start, count))
    return pieces


def _without(found: Sequence[Row], former: Sequence[Row], held: Sequence[Row]) -> list[Row]:
    """Return what a tier has without what it had from the tier before when that still held it; a second copy stays."""
    may_go = Counter(row[2] for row in former) - Counter(row[2] for row in held)
    left = []
    for row in found:
        if may_go[row[2]] > 0:
            may_go[row[2]] -= 1
        else:
            left.append(row)
    return left


@dataclass(slots=True)
class Claims:
    """What a producer said of its numbers under one producer id and epoch."""

    acknowledged: list[Row] = field(default_factory=list)
    uncertain: list[Row] = field(default_factory=list)
    renumbered: list[Row] = field(default_factory=list)
    """(first, count, crc, next producer id, next producer epoch, next first sequence), `unwrapped`."""
    tellers: dict[int, int] = field(default_factory=dict)
    """CRC of a batch → which run spoke of it, of runs that sent something again under other numbers."""
    is_retired: bool = False
    """Nothing more will come of the run: an end that it did not tell is not known."""


class Stored(NamedTuple):
    """A piece of a batch in the live log, by the last numbers that it was sent under."""

    first: int
    count: int  # type: ignore[assignment]
    crc: int
    """-1 where it stands under earlier numbers, of which the CRC has been compared."""
    offset: int
    is_altered: bool
    teller: int = -1
    """Of a piece under earlier numbers: the run that sent it again."""


def compare_sequences(claims: Mapping[Numbers, Claims], live: Iterable[Row]) -> list[Piece]:
    """Return where the live log differs from what producers said of one partition, sequence by sequence.

    `live` are rows of width six: offset, count, CRC, producer id, producer epoch and base sequence.
    """
    stored: dict[Numbers, list[Row]] = {}
    for row in live:
        stored.setdefault((row[3], row[4]), []).append(row)
    if all(_agree(one, stored.get(numbers, [])) for numbers, one in claims.items()) and stored.keys() <= claims.keys():
        return []
    standing: dict[Numbers, list[Stored]] = {}
    for rows in stored.values():
        for offset, count, crc, producer_id, epoch, sequence in rows:
            for numbers, piece in _last_numbers(claims, (producer_id, epoch), Stored(sequence, count, crc, offset, False), set()):
                standing.setdefault(numbers, []).append(piece)
    open_ends = _open_ends(claims)
    pieces: list[Piece] = []
    for numbers in sorted(claims.keys() | standing.keys() | open_ends.keys()):
        said = claims.get(numbers, Claims())
        pieces += _compare_one(numbers, said, open_ends.get(numbers, []), standing.get(numbers, []))
    return pieces


def _agree(said: Claims, stored: Sequence[Row]) -> bool:
    """Return whether the log holds just the batches that were acknowledged: the way of nearly all."""
    if said.uncertain or said.renumbered or len(said.acknowledged) != len(stored):
        return False
    expected = sorted(said.acknowledged)
    if any(row[0] + row[1] > behind[0] for row, behind in pairwise(expected)):
        return False
    return sorted((row[5], row[1], row[2]) for row in stored) == expected


def _compare_one(numbers: Numbers, said: Claims, open_ends: Sequence[Row], standing: Sequence[Stored]) -> list[Piece]:
    pieces: list[Piece] = []
    layers = [[part for row in rows for part in unwrapped(row)] for rows in (said.acknowledged, said.uncertain, open_ends)]
    for start, end, (*ends, found) in sweep(*layers, standing):
        claims = _claims_at(ends)
        sequences = (*numbers, start)
        in_order = sorted(found, key=lambda one: one[3])
        if not claims:
            pieces += [Piece(Finding.UNREPORTED, one[3] + start - one[0], end - start, *sequences) for one in in_order]
            continue
        absent, doubled = _pair(claims, in_order, said.tellers)
        pieces += [Piece(Finding.DOUBLED, one[3] + start - one[0], end - start, *sequences) for one in doubled]
        pieces += [Piece(finding, None, end - start, *sequences, row[2]) for finding, row in absent]
        strange = next((one for one in in_order if one[4] or differ([row for _, row in claims], [one])), None)
        if strange is not None:
            pieces.append(Piece(Finding.ALTERED, strange[3] + start - strange[0], end - start, *sequences))
    return pieces


def _claims_at(ends: Sequence[Sequence[Row]]) -> list[tuple[Finding, Row]]:
    """Return what was said of one sequence number, the strongest word first: what it is called where it is not in the log, and
    the batch. Each batch once, by its CRC.
    """
    acknowledged, uncertain, unsaid = ends
    claims: list[tuple[Finding, Row]] = []
    for finding, rows in ((Finding.MISSING, acknowledged), (Finding.SEND_FAILED, uncertain)):
        for row in rows:
            if not claims or differ([known for _, known in claims], [row]):
                claims.append((finding, row))
    if not claims:
        # Sent under these numbers at last, and nobody said what became of it: of a retired run nobody will.
        claims = [(Finding.SEND_FAILED if row[3] else Finding.MISSING, row) for row in unsaid[:1]]
    return claims


def _pair(
    claims: Sequence[tuple[Finding, Row]], found: Sequence[Row], tellers: Mapping[int, int]
) -> tuple[list[tuple[Finding, Row]], list[Row]]:
    """Return the batches that were told and are not there, and those that are there once too often, for one sequence number.

    Two batches under one number (two processes of one producer id) are distinguished by their CRC; one that stands under earlier
    numbers, of which the CRC is another, by the run that spoke of it.
    """
    absent = list(claims)
    doubled: list[Row] = []
    strange: list[Row] = []
    for one in found:
        its = [claim for claim in claims if one[5] != -1 and tellers.get(claim[1][2]) == one[5]]
        same = next((claim for claim in absent if (claim in its if its else not differ([claim[1]], [one]))), None)
        if same is not None:
            absent.remove(same)
        elif differ([row for _, row in claims], [one]):
            strange.append(one)
        else:
            doubled.append(one)
    altered = min(len(absent), len(strange))
    return absent[altered:], doubled + strange[altered:]


def _last_numbers(
    claims: Mapping[Numbers, Claims], numbers: Numbers, piece: Stored, met: set[tuple[Numbers, Row]]
) -> Iterator[tuple[Numbers, Stored]]:
    """Yield the piece under the last numbers that its records were sent under, cut where their ways part."""
    for first, count in unwrapped((piece.first, piece.count)):
        skipped = 0 if first == piece.first else SEQUENCES - piece.first
        at, end = first, first + count
        for row in sorted(claims[numbers].renumbered) if numbers in claims else ():
            low, high = max(at, row[0]), min(end, row[0] + row[1])
            if low >= high or (numbers, row) in met:
                continue
            offset = piece.offset + skipped - first
            if low > at:
                yield numbers, piece._replace(first=at, count=low - at, offset=offset + at)
            is_altered = piece.is_altered or (piece.crc != -1 and row[2] not in (-1, piece.crc))
            teller = claims[numbers].tellers.get(row[2], -1)
            moved = Stored((row[5] + low - row[0]) % SEQUENCES, high - low, -1, offset + low, is_altered, teller)
            yield from _last_numbers(claims, (row[3], row[4]), moved, met | {(numbers, row)})
            at = high
        if at < end:
            yield numbers, piece._replace(first=at, count=end - at, offset=piece.offset + skipped + at - first)


def _open_ends(claims: Mapping[Numbers, Claims]) -> dict[Numbers, list[Row]]:
    """Return the numbers under which something was sent again, by producer id: what became of it ought to be said there."""
    ends: dict[Numbers, list[Row]] = {}
    for said in claims.values():
        for row in said.renumbered:
            ends.setdefault((row[3], row[4]), []).append((row[5], row[1], -1, int(said.is_retired)))
    for numbers, said in claims.items():
        again = [part for row in said.renumbered for part in unwrapped(row[:3])]
        if numbers in ends:
            targets = [part for row in ends[numbers] for part in unwrapped(row)]
            ends[numbers] = [
                (start, end - start, -1, sent[0][3]) for start, end, (sent, on) in sweep(targets, again) if sent and not on
            ]
    return ends


def unwrapped(row: Row) -> list[Row]:
    """Return the row's sequence numbers as rows that do not pass the highest one; a renumbered row's next numbers follow."""
    first, end = row[0], row[0] + row[1]
    if end <= SEQUENCES:
        return [row]
    rest = row[2:] if len(row) < 6 else (*row[2:5], (row[5] + SEQUENCES - first) % SEQUENCES)
    return [(first, SEQUENCES - first, *row[2:]), (0, end - SEQUENCES, *rest)]
