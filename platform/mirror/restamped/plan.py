"""Decides what of a fetch is copied, only counted, left out or reported as a gap, for one partition. Pure.

Unlike `partition_copy.after_fetch`, whose states it shares, it knows logs with dense offsets: there a transaction's marker and an
aborted batch have offsets and no records, and compaction leaves holes that are no loss. `copied_to` is an offset of the source:
up to there the destination's ledger says what was done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...wire.batch.record_batch import BatchHeader
from .. import partition_copy
from ..errors import WRITTEN_ANEW
from ..partition_copy import LOOKS_AT_A_GAP, Gap, GapKind, PartitionCopy, Phase

MOST_BATCHES = 10_000
"""Of one partition in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRules:
    """What a topic of the source may look like."""

    is_dense: bool
    """Offsets count records, as in Apache Kafka; else bytes."""
    is_compacted: bool = False
    """Offsets may be missing without a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do with the batches of one fetch, by their indexes."""

    copy: PartitionCopy
    count_only: int = 0
    """The destination holds batches[:count_only] already; they are only counted."""
    end: int = 0
    """batches[count_only:end] are this portion; what is left comes with a later fetch."""
    copied: tuple[int, ...] = ()
    """Those of the portion that the destination is to take."""
    refused: tuple[int, ...] = ()
    """Those that it does not take: they go to quarantine."""
    to_offset: int = 0
    """Where the portion ends in the source; 0 if there is none."""
    gap: Gap | None = None
    """Before the portion; skipped."""


def after_fetch(
    copy: PartitionCopy,
    headers: Sequence[BatchHeader],
    are_data: Sequence[bool],
    *,
    rules: SourceRules,
    log_start_offset: int,
    source_end: int,
    refused: Mapping[int, str],
    now_ms: int,
) -> Plan:
    """Return what to do with the result of a fetch from `copy.fetch_offset`. `refused`: base offsets of batches to leave out."""
    expected = copy.fetch_offset
    copy = replace(copy, source_end=max(source_end, expected))
    if not headers:
        return Plan(copy=replace(copy, trouble=None, attempt=0))
    gap = None
    first = max(expected, _begin(headers[0], rules))
    if first > expected and not rules.is_compacted:
        if copy.looks_at_gap + 1 < LOOKS_AT_A_GAP:
            looked = partition_copy.troubled(copy, f"the source gives nothing from {expected} to {first}: looking again", now_ms)
            return Plan(copy=replace(looked, phase=Phase.COPYING, looks_at_gap=copy.looks_at_gap + 1))
        if expected < log_start_offset:
            return Plan(copy=replace(copy, phase=Phase.SKIPPING, skip_to=first, looks_at_gap=0, not_before_ms=0))
        gap = Gap(kind=GapKind.UNREADABLE, from_offset=expected, to_offset=first)
        copy = replace(
            copy,
            counted_to=max(copy.counted_to, first),
            sent_to=max(copy.sent_to, first),
            passed_over=copy.passed_over + max(0, first - max(expected, copy.copied_to)),
        )
    copy = replace(copy, looks_at_gap=0)
    count_only = end = 0
    copied: list[int] = []
    left_out: list[int] = []
    expected = first
    for index, header in enumerate(headers):
        begin = max(expected, _begin(header, rules))
        if (begin > expected and not rules.is_compacted) or end - count_only >= MOST_BATCHES:
            break
        if header.next_offset <= copy.copied_to:
            count_only = end = index + 1
            expected = max(expected, header.next_offset)
            continue
        if begin < copy.copied_to:
            return Plan(copy=_across(copy, header, now_ms))
        end, expected = index + 1, max(expected, header.next_offset)
        if not are_data[index]:
            continue
        if header.base_offset in refused:
            # The portion ends here: what was left out is in the ledger before anything behind it is copied.
            left_out.append(index)
            break
        copied.append(index)
    if count_only:
        copy = replace(copy, counted_to=max(copy.counted_to, headers[count_only - 1].next_offset))
    return Plan(
        copy=copy,
        count_only=count_only,
        end=end,
        copied=tuple(copied),
        refused=tuple(left_out),
        to_offset=expected if end > count_only else 0,
        gap=gap,
    )


def _begin(header: BatchHeader, rules: SourceRules) -> int:
    return header.base_offset if rules.is_dense else header.position


def _across(copy: PartitionCopy, header: BatchHeader, now_ms: int) -> PartitionCopy:
    return partition_copy.in_error(
        copy,
        Phase.DIVERGED,
        f"the source's batch {header.base_offset} to {header.next_offset} lies across offset {copy.copied_to}, up to which it is "
        f"copied: the source has been rewritten; {WRITTEN_ANEW}",
        now_ms,
    )
