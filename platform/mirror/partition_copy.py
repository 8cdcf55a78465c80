"""Decides the next step for one partition. Pure: no socket, no clock, no thread.

Facts go in: where both logs begin and end, which batches a fetch returned, the result of an append. A new `PartitionCopy` comes
out, and a `FetchPlan` after a fetch. The forwarder carries it out. Three positions move here, only at the borders of batches:

    counted_to   up to here the batches are counted for the audit
    copied_to    up to here the destination has confirmed that it holds them
    sent_to      up to here they are sent

After a restart or a lost response, the destination may hold more than is counted. The batches between are then fetched again and
only counted. A gap is a range of offsets that the source can no longer serve; it is skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ..runtime.backoff import Backoff
from ..wire.batch.record_batch import BatchHeader
from .errors import LOST_TAIL, WRITTEN_ANEW

BACKOFF = Backoff(first_ms=50, longest_ms=2_000)
RECHECK_MS = 2_000
"""How often an error state is checked again: an operator may have repaired it."""
LOOKS_AT_A_GAP = 3
"""A gap is believed after it was seen this often: passing it over cannot be undone."""
MOST_APPEND_BYTES = 8 * 1024 * 1024
"""The bytes of one partition in one request, unless a single batch is larger."""


class Phase(Enum):
    """The phase of one partition. The value is the word in the status file."""

    RESUMING = "resuming"
    """The ends of both logs must be read."""
    COPYING = "copying"
    SKIPPING = "skipping"
    """The counts must be reported before counting continues after a gap."""
    SOURCE_BEHIND = "source_behind"
    """Error: the source ends before the destination, so it has lost its tail. Nothing is written."""
    DIVERGED = "diverged"
    """Error: source and destination hold different batches at the same offset. Nothing is written."""
    REFUSED = "refused"
    """Error: the destination refuses the batches, for another reason than their offset."""


ERROR_PHASES = frozenset({Phase.SOURCE_BEHIND, Phase.DIVERGED, Phase.REFUSED})


class GapKind(Enum):
    EXPIRED = "expired"
    """The source's retention was faster than this mirror."""
    UNREADABLE = "unreadable"
    """The source holds bytes there that it cannot serve as whole batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets [from_offset, to_offset) that the destination will never hold. The mirror cannot know their number of records; the
    audit does, if it read them in the source.
    """

    kind: GapKind
    from_offset: int
    to_offset: int


class TailComparison(Enum):
    """The destination's last batch, compared with the source's batch at that offset."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """One of them holds nothing readable there (any more), so there is nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where both logs begin and end, read at the same time, the destination's end first."""

    source_start: int
    source_end: int
    destination_start: int
    destination_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCopy:
    """One partition's state. Values are replaced, never changed."""

    phase: Phase = Phase.RESUMING
    counted_to: int = 0
    copied_to: int = 0
    sent_to: int = 0
    source_end: int = 0
    """As last reported by the source."""
    skip_to: int = 0
    """Where counting continues after SKIPPING."""
    is_jumping: bool = False
    """The next append leaves a gap after the destination's end."""
    looks_at_gap: int = 0
    attempt: int = 0
    """Failures since the last progress."""
    not_before_ms: int = 0
    """Nothing is done before this monotonic time."""
    trouble: str | None = None
    """The last failure, as text; None once there was progress."""
    passed_over: int = 0
    """Offsets in gaps since this process began."""

    @property
    def lag_bytes(self) -> int:
        """Return how far the destination is behind the source, as last reported."""
        return max(0, self.source_end - self.copied_to)

    @property
    def fetch_offset(self) -> int:
        """Return where the next fetch begins: at the first batch that is held but not counted, else after what is sent."""
        return self.counted_to if self.counted_to < self.copied_to else self.sent_to


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """What to do with a fetch: count batches[:count_only], append batches[count_only:append_end], leave the others for later."""

    copy: PartitionCopy
    count_only: int = 0
    append_end: int = 0
    conditional_start: int = 0
    """The source's log start that the append names."""
    gap: Gap | None = None
    """Unreadable offsets before the batches. They are logged, quarantined and passed in the count before the rest is carried out.
    """


def is_due_to_resume(copy: PartitionCopy, now_ms: int) -> bool:
    """Return whether both logs' ends are to be read now."""
    return (copy.phase is Phase.RESUMING or copy.phase in ERROR_PHASES) and now_ms >= copy.not_before_ms


def is_due_to_fetch(copy: PartitionCopy, now_ms: int) -> bool:
    return copy.phase is Phase.COPYING and now_ms >= copy.not_before_ms


def resumed(copy: PartitionCopy, ends: Ends, comparison: TailComparison, *, counted_to: int | None, now_ms: int) -> PartitionCopy:
    """Return the copy once the ends of both logs are known.

    `counted_to`: how far the audit has a report. None if it has none: then everything that the destination holds is counted. An
    empty destination that ends before it is a new copy, and the report was of an earlier one: all is counted, too.
    """
    copied_to = ends.destination_end
    copy = replace(copy, source_end=ends.source_end, copied_to=copied_to, sent_to=copied_to, is_jumping=False, looks_at_gap=0)
    if ends.source_end < copied_to:
        return in_error(
            copy,
            Phase.SOURCE_BEHIND,
            f"the source ends at {ends.source_end} and the destination at {copied_to}: the source has lost its tail; {LOST_TAIL}",
            now_ms,
        )
    if comparison is TailComparison.DIFFERENT:
        return in_error(
            copy,
            Phase.DIVERGED,
            f"the batch before the destination's end {copied_to} is another one in the source: the source has been "
            f"rewritten there; {WRITTEN_ANEW}",
            now_ms,
        )
    is_new_copy = counted_to is not None and ends.destination_start == ends.destination_end < counted_to
    counted = ends.destination_start if counted_to is None or is_new_copy else counted_to
    copy = replace(copy, phase=Phase.COPYING, counted_to=counted, not_before_ms=0)
    return _skipping(copy, ends.source_start) if copy.fetch_offset < ends.source_start else copy


def ends_read(copy: PartitionCopy, ends: Ends) -> PartitionCopy:
    """Return the copy with the positions of both ends, where copying must not continue."""
    return replace(copy, copied_to=ends.destination_end, source_end=ends.source_end)


def out_of_range(copy: PartitionCopy, log_start_offset: int, now_ms: int) -> PartitionCopy:
    """Return the copy after the source reported that it does not hold the fetch offset."""
    if log_start_offset > copy.fetch_offset:
        return _skipping(copy, log_start_offset)
    return troubled(copy, f"the source does not reach offset {copy.fetch_offset}: asking for both ends again", now_ms)


def skipped(copy: PartitionCopy) -> tuple[PartitionCopy, Gap | None]:
    """Return the copy once its counts are reported and counting begins again at `counted_to`; and the gap, if data is lost by it.

    Without a gap the destination holds all data; only the count of a part of it cannot be recovered.
    """
    gap = None
    if copy.skip_to > copy.copied_to:
        gap = Gap(kind=GapKind.EXPIRED, from_offset=copy.copied_to, to_offset=copy.skip_to)
    return replace(
        copy,
        phase=Phase.COPYING,
        counted_to=max(copy.counted_to, copy.skip_to),
        sent_to=max(copy.copied_to, copy.skip_to),
        is_jumping=gap is not None,
        passed_over=copy.passed_over + (gap.to_offset - gap.from_offset if gap else 0),
    ), gap


def after_fetch(
    copy: PartitionCopy, headers: Sequence[BatchHeader], *, log_start_offset: int, high_watermark: int, now_ms: int
) -> FetchPlan:
    """Return what to do with the result of a fetch from `copy.fetch_offset`."""
    expected = copy.fetch_offset
    copy = replace(copy, source_end=max(high_watermark, expected))
    if not headers:
        return FetchPlan(copy=caught_up(copy))
    first = headers[0].position
    if first < expected:
        # A log may start inside a batch (DeleteRecords). Batches are copied whole, so the copy continues where that batch begins.
        if not expected <= log_start_offset < headers[0].next_offset:
            return FetchPlan(copy=_diverged(copy, headers[0], now_ms))
        expected = first
    gap = None
    if first > expected:
        if copy.looks_at_gap + 1 < LOOKS_AT_A_GAP:
            looked = troubled(copy, f"the source gives nothing from {expected} to {first}: looking again", now_ms)
            return FetchPlan(copy=replace(looked, phase=Phase.COPYING, looks_at_gap=copy.looks_at_gap + 1))
        if expected < log_start_offset:
            return FetchPlan(copy=_skipping(copy, first))
        gap = Gap(kind=GapKind.UNREADABLE, from_offset=expected, to_offset=first)
        copy = replace(
            copy,
            counted_to=max(copy.counted_to, first),
            sent_to=max(copy.sent_to, first),
            is_jumping=first > copy.copied_to,
            passed_over=copy.passed_over + max(0, first - max(expected, copy.copied_to)),
        )
    copy = replace(copy, looks_at_gap=0)
    count_only = append_end = append_bytes = 0
    expected = first
    for header in headers:
        if header.position != expected:
            break
        expected = header.next_offset
        if expected <= copy.copied_to:
            count_only = append_end = count_only + 1
            continue
        if header.position < copy.copied_to:
            return FetchPlan(copy=_diverged(copy, header, now_ms))
        append_bytes += header.size_bytes
        if append_end > count_only and append_bytes > MOST_APPEND_BYTES:
            break
        append_end += 1
    if count_only:
        copy = replace(copy, counted_to=max(copy.counted_to, headers[count_only - 1].next_offset))
    if append_end == count_only:
        return FetchPlan(copy=replace(copy, trouble=None, attempt=0), count_only=count_only, append_end=append_end, gap=gap)
    begins = headers[count_only].position
    conditional_start = begins if copy.is_jumping else min(log_start_offset, begins)
    return FetchPlan(
        copy=replace(copy, sent_to=headers[append_end - 1].next_offset, is_jumping=False),
        count_only=count_only,
        append_end=append_end,
        conditional_start=conditional_start,
        gap=gap,
    )


def caught_up(copy: PartitionCopy) -> PartitionCopy:
    """Return the copy after a fetch that brought nothing, because the source has nothing more."""
    return replace(copy, trouble=None, attempt=0) if copy.sent_to == copy.copied_to else copy


def acknowledged(copy: PartitionCopy, to_offset: int) -> PartitionCopy:
    """Return the copy once the destination holds everything up to `to_offset`, and it is counted in the same turn."""
    return replace(
        copy,
        copied_to=max(copy.copied_to, to_offset),
        counted_to=max(copy.counted_to, to_offset),
        source_end=max(copy.source_end, to_offset),
        trouble=None,
        attempt=0,
    )


def destination_seen(copy: PartitionCopy, destination_end: int, now_ms: int) -> PartitionCopy:
    """Return the copy after the destination's end was read, with no append in flight.

    The destination may have lost data that was not on its disk yet. An append would be refused then, but without new batches
    there is no append.
    """
    if copy.phase is not Phase.COPYING or destination_end >= copy.copied_to:
        return copy
    return troubled(copy, f"the destination ends at {destination_end}, it had {copy.copied_to}: copying again from there", now_ms)


def troubled(copy: PartitionCopy, what: str, now_ms: int) -> PartitionCopy:
    """Return the copy after a failure that may pass: wait, read both ends, continue from there."""
    wait_ms = BACKOFF.wait_ms(copy.attempt)
    return replace(copy, phase=Phase.RESUMING, trouble=what, attempt=copy.attempt + 1, not_before_ms=now_ms + wait_ms)


def in_error(copy: PartitionCopy, phase: Phase, what: str, now_ms: int) -> PartitionCopy:
    """Return the copy in an error state: nothing is written, and it is checked again from time to time."""
    return replace(copy, phase=phase, trouble=what, attempt=copy.attempt + 1, not_before_ms=now_ms + RECHECK_MS)


def _skipping(copy: PartitionCopy, to_offset: int) -> PartitionCopy:
    return replace(copy, phase=Phase.SKIPPING, skip_to=to_offset, looks_at_gap=0, not_before_ms=0)


def _diverged(copy: PartitionCopy, header: BatchHeader, now_ms: int) -> PartitionCopy:
    return in_error(
        copy,
        Phase.DIVERGED,
        f"the source's batch {header.position} to {header.next_offset} lies across offset {copy.fetch_offset}, where the "
        f"destination has a border: the source has been rewritten; {WRITTEN_ANEW}",
        now_ms,
    )
