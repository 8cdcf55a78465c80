"""Whether each record that counts as quarantined can be read: the quarantine topic is a tier of its own, keyed by origin. Pure.

A record in quarantine balances because it has an address. What the window's books have under the tier `quarantine`, for each
partition of the *quarantine* topic, are rows of six numbers:

    offset there, 1, CRC-32C of the value, whose, which, place
    of a log:          2 × partition (+ 1: of the offline cluster), how many offsets, the first of them
    of an application: OF_AN_APPLICATION, `number_of` its instance, the number of the refused event
    of a file:         OF_A_FILE, `number_of` the file, its line or offset

They are noted as they arrive. What the topic has deleted since is `expired`, what another reading does not find is missing, and
what has another value at its place is altered. Claims that a tier makes by offset are compared by offset, those of applications
by number. Deleting the topic makes all of them unknown.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from ..books import Found
from ..comparison import Finding, Piece, sweep
from ..differences import Findings
from ..facts import TopicFacts, WindowFacts
from ..messages import QUARANTINED
from ..packed_rows import Row, joined
from ..tier_log import TierLog
from ..tiers import PRODUCER, QUARANTINE
from ..waits import QUARANTINES, End, Subject

OF_AN_APPLICATION = -2
OF_A_FILE = -3
NO_PARTITION = -1
"""The partition of what an application refused: it is in no log."""


def number_of(name: str) -> int:
    """Return the number under which rows have an instance or a file: 63 bits of a hash."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> 1


def is_at_offline(whose: int) -> bool:
    """Return whether a row's place is an offset of the offline cluster's log."""
    return whose >= 0 and whose % 2 == 1


def gone_records(topic: TopicFacts, window: WindowFacts, tiers: Collection[str]) -> int:
    """Return how many records of the window may have stood in a quarantine topic that was deleted.

    Those that were told before that was noticed; in a window that had ended by then, all, for late news move an entry's time.
    """
    gone_ms = topic.quarantine_gone_ms
    if gone_ms is None:
        return 0
    has_ended = window.window_end_ms <= gone_ms
    of_tiers = sum(
        entry.quarantined.count for entry in _claims(window, tiers).values() if has_ended or entry.updated_ms <= gone_ms
    )
    told = (book.losses.get(QUARANTINED, 0) for book in window.producers.values() if has_ended or book.heard_ms <= gone_ms)
    return of_tiers + (sum(told) if PRODUCER in tiers else 0)


def words_of(count: int) -> str:
    """Return why such a window is not known."""
    return f"{count} quarantined records cannot be read any more: their quarantine topic was deleted"


def unread_words(count: int) -> str:
    """Return why a window is not known of which a part of the quarantine topic was deleted before the audit read it."""
    return f"{count} quarantined records may have been in a part of the quarantine topic that expired before the audit read it"


def claimed_ms(window: WindowFacts, tiers: Collection[str]) -> int | None:
    """Return when the last of these tiers said that records of the window are in quarantine; None: none of them has."""
    said = [entry.updated_ms for entry in _claims(window, tiers).values() if entry.quarantined]
    if PRODUCER in tiers:
        said += [book.heard_ms for book in window.producers.values() if book.losses.get(QUARANTINED)]
    return max(said, default=None)


def behind(topic: TopicFacts, at_ms: int) -> tuple[int, Subject] | None:
    """Return since when the quarantine topic makes no progress that is not read to its end since `at_ms`, and what must pass
    `at_ms`; None where it is read.

    A topic that has no quarantine on the live cluster, as far as the audit has looked since, is not read back.
    """
    logs = topic.logs.get(QUARANTINE)
    if logs:
        late = [(log.moved_ms, at) for at, log in logs.items() if log.caught_up_ms is None or log.caught_up_ms <= at_ms]
        moved_ms, partition = max(late, default=(None, 0))
        return None if moved_ms is None else (moved_ms, End(QUARANTINE, partition))
    looked_ms = topic.quarantines_seen_ms
    return None if looked_ms is None or looked_ms > at_ms else (looked_ms, QUARANTINES)


def compare_quarantine(topic: TopicFacts, window: WindowFacts, tiers: Collection[str]) -> Findings:
    """Return which records that these tiers count as quarantined are not in the quarantine topic, which has been read."""
    findings = Findings()
    logs = topic.logs.get(QUARANTINE, {})
    if not logs:
        return findings
    gone = Finding.UNREAD if any(log.unread() for log in logs.values()) else Finding.MISSING
    there = _addresses(window.found.get(QUARANTINE, {}), logs)
    claimed: dict[int, list[Row]] = {}
    for (_, partition), entry in _claims(window, tiers).items():
        claimed.setdefault(partition, []).extend(entry.quarantined)
    for partition, rows in sorted(claimed.items()):
        mine = [there[key] for key in ((2 * partition, 0), (2 * partition + 1, 0)) if key in there]
        for piece in _by_offset(rows, mine, gone):
            findings.add(partition, piece)
    if PRODUCER in tiers:
        for piece in _by_number(window, there, gone):
            findings.add(NO_PARTITION, piece)
    return findings


@dataclass(slots=True)
class _Addresses:
    """What of one log, application or file is in the quarantine topic: (place, how many, -1)."""

    here: list[Row] = field(default_factory=list)
    altered: list[Row] = field(default_factory=list)
    expired: list[Row] = field(default_factory=list)


def _addresses(found: Mapping[int, Found], logs: Mapping[int, TierLog]) -> dict[tuple[int, int], _Addresses]:
    """Return (whose, which; 0 of a log) → what is there."""
    there: dict[tuple[int, int], _Addresses] = {}
    for partition, entry in found.items():
        expired_below = logs[partition].expired_below if partition in logs else 0
        former = former_crcs(entry)
        for offset, _, crc, whose, which, place in entry.held:
            one = there.setdefault((whose, 0 if whose >= 0 else which), _Addresses())
            row = (place, which if whose >= 0 else 1, -1)
            if offset < expired_below:
                one.expired.append(row)
            else:
                (one.altered if former.get(offset, crc) != crc else one.here).append(row)
    return there


def _claims(window: WindowFacts, tiers: Collection[str]) -> dict[tuple[str, int], Found]:
    return {(tier, partition): entry for tier in tiers for partition, entry in window.found.get(tier, {}).items()}


def former_crcs(entry: Found) -> dict[int, int]:
    """Return offset → CRC of what another reading found there before."""
    return {row[0]: row[2] for row in entry.altered}


def _by_offset(claimed: Iterable[Row], there: Collection[_Addresses], gone: Finding) -> Iterator[Piece]:
    rows = [(start, end - start, -1) for start, end in joined(claimed)]
    layers = [[row for one in there for row in getattr(one, part)] for part in ("here", "altered", "expired")]
    for start, end, (said, found, changed, deleted) in sweep(rows, *layers):
        if said and not found:
            yield Piece(Finding.ALTERED if changed else Finding.EXPIRED if deleted else gone, start, end - start)


def _by_number(window: WindowFacts, there: Mapping[tuple[int, int], _Addresses], gone: Finding) -> Iterator[Piece]:
    """Yield what applications count as quarantined beyond the records of theirs that are there, and beyond those of files."""
    claims: Counter[str] = Counter()
    for key, book in window.producers.items():
        claims[key.instance] += book.losses.get(QUARANTINED, 0)
    of_files = _counts(one for (whose, _), one in there.items() if whose == OF_A_FILE)
    for instance, left in sorted(claims.items()):
        mine = there.get((OF_AN_APPLICATION, number_of(instance)))
        for counts in (_counts([mine] if mine else []), of_files):
            for finding, count in counts.items():
                taken = min(left, count)
                left -= taken
                counts[finding] -= taken
                if taken and finding is not None:
                    yield Piece(finding, None, taken)
        if left:
            yield Piece(gone, None, left)


def _counts(there: Iterable[_Addresses]) -> dict[Finding | None, int]:
    """Return how many records are there (None), are altered, and have expired."""
    counts: dict[Finding | None, int] = {None: 0, Finding.ALTERED: 0, Finding.EXPIRED: 0}
    for one in there:
        for finding, rows in zip(counts, (one.here, one.altered, one.expired), strict=True):
            counts[finding] += len(rows)
    return counts
