"""Which records differ between one tier and the one before it, in one window; what is lost by name, what nobody can say.

Pure. Whether it may be said yet is `verdict.py`'s to decide.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from .checks.digests import digest_of
from .checks.former import beside_former, former_rows, lost_from_live
from .comparison import Claims, Finding, Numbers, Piece, compare_offsets, compare_sequences, unwrapped
from .facts import Difference, Records, TopicFacts, WindowFacts
from .messages import CORRUPT, EXPIRED, SKIPPED_BY_SEEK
from .packed_rows import PLAIN, Row, joined
from .runs import Run, RunKey
from .tier_log import TierLog
from .tiers import CHAIN, LIVE, READ_BACK, TierRule

MOST_RECORDS = 100
"""Entries that name records, of one difference."""
BAD = (Finding.MISSING, Finding.DOUBLED, Finding.ALTERED)
_WITNESSES = CHAIN[CHAIN.index(LIVE) + 1 : -1]
"""Tiers whose batches have the CRC of those in the live log."""


@dataclass(slots=True)
class Findings:
    """What the comparison of one tier came to."""

    bad: dict[int, list[Piece]] = field(default_factory=dict)
    """Partition → records that are missing, doubled or altered."""
    losses: Counter[str] = field(default_factory=Counter)
    """Name → records lost under it here."""
    unread: int = 0
    """Records that may be there, where nobody could read."""
    unreported: Counter[RunKey] = field(default_factory=Counter)
    """Run → its records in the live log that no report speaks of."""

    def add(self, partition: int, piece: Piece) -> None:
        if piece.finding in BAD:
            self.bad.setdefault(partition, []).append(piece)
        elif piece.finding is Finding.UNREAD:
            self.unread += piece.count
        else:
            self.losses[piece.finding.value] += piece.count


# -- producers and the live log ------------------------------------------------------------------------------------------


def claims_of(window: WindowFacts) -> dict[int, dict[Numbers, Claims]]:
    """Return partition → (producer id, epoch) → what producers said."""
    claims: dict[int, dict[Numbers, Claims]] = {}
    for number, (key, book) in enumerate(window.producers.items()):
        sent_again = any(sent.renumbered for sent in book.sent.values())
        for (partition, producer_id, epoch), sent in book.sent.items():
            one = claims.setdefault(partition, {}).setdefault((producer_id, epoch), Claims())
            one.acknowledged += sent.acknowledged
            one.uncertain += sent.uncertain
            one.renumbered += chain.from_iterable(map(unwrapped, sent.renumbered))
            if sent_again:
                one.tellers.update((row[2], number) for rows in sent.parts for row in rows)
            owner = window.owners.get(producer_id)
            one.is_retired |= owner is not None and owner.key == key and owner.retired is not None
    return claims


def compare_producers(topic: TopicFacts, window: WindowFacts) -> Findings:
    """Return how the live log differs from what producers said. Records of ids that nobody announced are left out."""
    findings = Findings()
    live = window.found.get(LIVE, {})
    claims = claims_of(window)
    for partition in sorted(claims.keys() | live.keys() | copied(window)):
        held = live[partition].held if partition in live else ()
        audited = [row for row in held if row[3] in window.owners]
        log = topic.logs.get(LIVE, {}).get(partition)
        said = claims.get(partition, {})
        copies, unproven = _read_in_a_copy(topic, window, partition, log, said) if log is not None else ([], 0)
        findings.unread += unproven
        pieces = compare_sequences(said, [*audited, *copies])
        hidden: list[Piece] = []
        for piece in pieces:
            if piece.finding is Finding.UNREPORTED:
                owner = window.owners[piece.producer_id or 0]
                findings.unreported[owner.key] += piece.count
                if not _is_forgiven(owner):
                    findings.add(partition, piece._replace(finding=Finding.DOUBLED))
            elif piece.first_offset is None and log is not None and _may_be_hidden(log, said, piece):
                hidden.append(piece)
            else:
                findings.add(partition, piece)
        if log is not None:
            damaged = beside_former(_damaged(topic, window, partition, log, said), former_rows(window, partition))
            for piece in (*_unproven(hidden), *damaged):
                findings.add(partition, piece)
    for partition, piece in lost_from_live(window, claims):
        findings.add(partition, piece)
    return findings


def copied(window: WindowFacts) -> set[int]:
    """Return the partitions of which a tier behind the live log has batches, be they readable on live or not."""
    return {partition for tier in _WITNESSES for partition in window.found.get(tier, {})}


def _is_forgiven(run: Run) -> bool:
    """Return whether records that no report speaks of may be in the log: of a run that will say no more."""
    return run.retired is not None


def _may_be_hidden(log: TierLog, claims: dict[Numbers, Claims], piece: Piece) -> bool:
    """Return whether the records may stand where nobody could read the live log.

    They do not where a batch of the same producer id with a lower sequence number was read behind that: numbers only rise.
    """
    if not log.unread():
        return False
    numbers = piece.producer_id or 0, piece.producer_epoch or 0
    if any(row[3:5] == numbers for said in claims.values() for row in said.renumbered):
        return True
    first = log.firsts.get(numbers)
    return first is None or piece.first_sequence is None or piece.first_sequence < first[1]


def _unproven(hidden: Iterable[Piece]) -> list[Piece]:
    """Return what is said of records that may lie where nobody could read, and that no later tier has copied."""
    return [piece._replace(finding=Finding.UNREAD) for piece in hidden]


def _read_in_a_copy(
    topic: TopicFacts, window: WindowFacts, partition: int, log: TierLog, claims: dict[Numbers, Claims]
) -> tuple[list[Row], int]:
    """Return the batches that stood where nobody could read the live log, as its rows; of how many records that is not proven.

    A later tier has copied them, and their CRC is that of a batch of which a producer speaks. A log holds a batch whole or not at
    all: where a copy has three records of a batch of two, the batch stood there twice, and of one record it is unknown. Nor does
    anybody of copied records with the CRC of no such batch: a program's that reports nothing, or changed ones of a producer's.
    """
    stood: list[Row] = []
    unproven = 0
    for start, limit in joined((start, end - start) for start, end in log.unread()):
        found: dict[int, list[Row]] = {}
        for row in _witnesses(topic, window, partition, [(start, limit)]):
            found.setdefault(row[2], []).append(row)
        spoken_of = _spoken_of(claims) if found else {}
        for crc, rows in found.items():
            held = joined(rows)
            copied_count = sum(end - begin for begin, end in held)
            if crc not in spoken_of:
                unproven += copied_count
                continue
            first, count, *numbers = spoken_of[crc]
            for place in _fewest_places(held, count):
                stood.append((place, min(count, limit - place), crc, *numbers, first))
                unproven += stood[-1][1]
            unproven -= copied_count
    return stood, unproven


def _fewest_places(held: Iterable[tuple[int, int]], count: int) -> list[int]:
    """Return where copies of a batch of `count` records begin, the fewest that hold all of these offsets."""
    places: list[int] = []
    for start, end in held:
        places += range(max(start, places[-1] + count) if places else start, end, count)
    return places


def _spoken_of(claims: dict[Numbers, Claims]) -> dict[int, tuple[int, int, int, int]]:
    """Return CRC → (first sequence, count, producer id, producer epoch) of each batch that no other one has the CRC of."""
    batches: dict[int, set[tuple[int, int, int, int]]] = {}
    for numbers, said in claims.items():
        for first, count, crc, *_ in (*said.acknowledged, *said.uncertain, *said.renumbered):
            batches.setdefault(crc, set()).add((first, count, *numbers))
    return {crc: next(iter(those)) for crc, those in batches.items() if crc != -1 and len(those) == 1}


def _damaged(
    topic: TopicFacts, window: WindowFacts, partition: int, log: TierLog, claims: dict[Numbers, Claims]
) -> Iterator[Piece]:
    """Yield records that were damaged in the live log after a later tier had copied them, and of which no producer speaks."""
    corrupt = log.skipped_as(CORRUPT)
    if not corrupt:
        return
    spoken_of = {row[2] for one in claims.values() for row in (*one.acknowledged, *one.uncertain, *one.renumbered)}
    for first, count, crc in _witnesses(topic, window, partition, corrupt):
        if crc != -1 and crc not in spoken_of:
            yield Piece(Finding.MISSING, first, count)


def _witnesses(topic: TopicFacts, window: WindowFacts, partition: int, ranges: Iterable[tuple[int, int]]) -> list[Row]:
    """Return what the nearest later tier that has anything there holds in the ranges."""
    expected = {rule.name for rule in topic.rules}
    ranges = list(ranges)
    for tier in _WITNESSES:
        entry = window.found.get(tier, {}).get(partition)
        if tier not in expected or entry is None:
            continue
        rows = [row for start, end in ranges for row in entry.held.between(start, end)]
        if rows:
            return rows
    return []


# -- one log and the next ------------------------------------------------------------------------------------------------


def compare_tiers(topic: TopicFacts, window: WindowFacts, rule: TierRule, partitions: Iterable[int]) -> Findings:
    """Return how the tier differs from the one before it in these partitions."""
    findings = Findings()
    if rule.before is None:
        return findings
    for partition in partitions:
        before = window.found.get(rule.before, {}).get(partition)
        mine = window.found.get(rule.name, {}).get(partition)
        copies = [] if rule.name in CHAIN else _copies(topic, window, rule, partition, findings)
        if (
            not copies
            and before is not None
            and mine is not None
            and not mine.quarantined
            and not mine.altered
            and before.held.names_the_same(mine.held)
        ):
            continue
        logs = topic.logs.get(rule.name, {})
        before_log = topic.logs.get(rule.before, {}).get(partition)
        unread_before = (
            _rows(before_log.unread(("expired", "deleted", "corrupt"))) if before_log and rule.before in READ_BACK else []
        )
        held = copies if before is None else [*(row[:PLAIN] for row in before.held), *copies]
        is_read_back = rule.name in READ_BACK
        gone: list[Row] = []
        skipped: list[tuple[int, int]] = []
        if partition in logs:
            log = logs[partition]
            skipped = log.skipped_as(SKIPPED_BY_SEEK)
            gone = _rows(log.unread() if is_read_back else [*log.skipped_as(EXPIRED), *skipped])
        pieces = compare_offsets(
            held,
            () if mine is None else (*(row[:PLAIN] for row in mine.held), *mine.quarantined),
            altered=() if mine is None else mine.altered,
            unread_before=unread_before,
            once=former_rows(window, partition) if rule.before == LIVE else (),
            gone=gone,
            gone_is=Finding.UNREAD if is_read_back else Finding.EXPIRED,
        )
        for piece in pieces:
            if piece.finding is Finding.UNREAD and _is_held_later(topic, window, rule, partition, piece):
                continue
            if piece.finding is Finding.EXPIRED and any(start <= (piece.first_offset or 0) < end for start, end in skipped):
                piece = piece._replace(finding=Finding.SKIPPED_BY_SEEK)
            findings.add(partition, piece)
    return findings


def _copies(topic: TopicFacts, window: WindowFacts, rule: TierRule, partition: int, findings: Findings) -> list[Row]:
    """Return what nobody could read on live any more, and another tier has copied: a group answers for it anyway.

    It answers, too, for what was damaged there; that it need not have. What it did not tell of either is unread.
    """
    live = topic.logs.get(LIVE, {}).get(partition)
    if rule.before != LIVE or live is None:
        return []
    log = topic.logs.get(rule.name, {}).get(partition)
    begins_at = 0 if log is None or rule.is_required else log.begins_at
    copies = []
    for ranges, must_have in ((live.unread(), True), (live.skipped_as(CORRUPT), False)):
        for row in _witnesses(topic, window, partition, ranges):
            if row[0] + row[1] <= begins_at:
                continue
            first = max(row[0], begins_at)
            row = (first, row[0] + row[1] - first, *row[2:])
            if log is None or not log.covers(row[0], row[0] + row[1]):
                findings.unread += row[1]
            elif must_have:
                copies.append(row)
    return copies


def _is_held_later(topic: TopicFacts, window: WindowFacts, rule: TierRule, partition: int, piece: Piece) -> bool:
    """Return whether a later tier of the chain has these records: they went through here."""
    names = [one.name for one in topic.rules if one.name in CHAIN]
    first, end = piece.first_offset or 0, (piece.first_offset or 0) + piece.count
    for name in names[names.index(rule.name) + 1 :]:
        entry = window.found.get(name, {}).get(partition)
        if entry is not None:
            found = [*entry.held.between(first, end), *entry.quarantined.between(first, end)]
            if not any(one.finding is Finding.MISSING for one in compare_offsets([(first, end - first, -1)], found)):
                return True
    return False


def _rows(ranges: Iterable[tuple[int, int]]) -> list[Row]:
    return [(start, end - start, -1) for start, end in ranges]


# -- how they are told ---------------------------------------------------------------------------------------------------


def differences_of(tier: str, findings: Findings, window: WindowFacts, most_records: int | None) -> list[Difference]:
    """Return the bad records of one tier by partition, with at most `most_records` entries each; None: all."""
    told = []
    for partition, pieces in sorted(findings.bad.items()):
        counts: Counter[Finding] = Counter()
        for piece in pieces:
            counts[piece.finding] += piece.count
        records: list[Records] = []
        shown = 0
        live = window.found.get(LIVE, {}).get(partition)
        batches = list(live.held) if live is not None else []
        for piece in sorted(pieces, key=lambda one: (BAD.index(one.finding), one.first_offset or 0, one.first_sequence or 0)):
            if most_records is not None and len(records) >= most_records:
                break
            records.append(_records(piece, window, batches))
            shown += piece.count
        told.append(
            Difference(
                tier=tier,
                partition=partition,
                missing=counts[Finding.MISSING],
                doubled=counts[Finding.DOUBLED],
                altered=counts[Finding.ALTERED],
                records=records,
                more=sum(counts.values()) - shown,
                digest=digest_of(pieces),
            )
        )
    return told


def _records(piece: Piece, window: WindowFacts, batches: Sequence[Row]) -> Records:
    producer_id, epoch, sequence = piece.producer_id, piece.producer_epoch, piece.first_sequence
    if producer_id is None and piece.first_offset is not None:
        batch = next((row for row in batches if row[0] <= piece.first_offset < row[0] + row[1]), None)
        if batch is not None and batch[3] >= 0:
            producer_id, epoch, sequence = batch[3], batch[4], batch[5] + piece.first_offset - batch[0]
    owner = window.owners.get(producer_id) if producer_id is not None else None
    return Records(
        kind=piece.finding.value,
        first_offset=piece.first_offset,
        count=piece.count,
        producer_id=producer_id,
        producer_epoch=epoch,
        first_sequence=sequence,
        instance=owner.key.instance if owner is not None else None,
        stray=piece.is_stray or None,
    )
