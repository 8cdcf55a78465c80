"""What is to be done next about one partition: the mirror's whole judgement. Pure: no socket, no clock, no thread.

Facts go in (where both logs begin and end, which batches a fetch brought, what became of an append), a new `PartitionCopy` comes
out, with orders where there are any. Carrying out is the forwarder's. Three positions move here, each at batch borders only:

    counted_to   up to here the batches are counted for the audit
    copied_to    up to here the destination has said that it holds them
    sent_to      up to here they are on their way

After a restart, or an answer that never came, the destination may hold more than is counted: then the batches between are
fetched again and only counted. A gap is where offsets are passed over that the source cannot give any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from ..runtime.backoff import Backoff
from ..wire.batch.record_batch import BatchHeader

BACKOFF = Backoff(first_ms=50, longest_ms=2_000)
RECHECK_MS = 2_000
"""How often an error state is looked at again: somebody may have mended it."""
LOOKS_AT_A_GAP = 3
"""So often a gap must show itself before it is believed: passing it over cannot be undone."""
MOST_APPEND_BYTES = 4 * 1024 * 1024
"""Of one partition in one request, unless a single batch is larger."""


class Phase(Enum):
    """What stands between a partition and being copied. The value is the word in the status file."""

    RESUMING = "resuming"
    """Where both logs end must be asked."""
    COPYING = "copying"
    SKIPPING = "skipping"
    """What is counted must be reported before the count goes on behind a gap."""
    SOURCE_BEHIND = "source_behind"
    """Error: the source ends before the destination, so it has lost its tail. Nothing is written."""
    DIVERGED = "diverged"
    """Error: source and destination hold different batches at the same offset. Nothing is written."""
    REFUSED = "refused"
    """Error: the destination refuses what it is sent, and not because of the offset."""


ERROR_PHASES = frozenset({Phase.SOURCE_BEHIND, Phase.DIVERGED, Phase.REFUSED})


class GapKind(Enum):
    EXPIRED = "expired"
    """The source's retention was faster than this mirror."""
    UNREADABLE = "unreadable"
    """The source has bytes there that it cannot give whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets [from_offset, to_offset) that the destination will never hold. How many records that are is not known."""

    kind: GapKind
    from_offset: int
    to_offset: int


class TailComparison(Enum):
    """What the destination's last batch is in the source."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """One of them holds nothing readable there (any more), so there is nothing to compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where both logs begin and end, asked at the same time, source first."""

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
    """As last heard."""
    skip_to: int = 0
    """Where the count goes on, while SKIPPING."""
    is_jumping: bool = False
    """The next append leaves a gap behind the destination's end."""
    looks_at_gap: int = 0
    attempt: int = 0
    """Troubles since the last progress."""
    not_before_ms: int = 0
    """Nothing is done before this monotonic time."""
    trouble: str | None = None
    """What went wrong last, in words; None once there was progress."""
    passed_over: int = 0
    """Offsets in gaps since this process began."""

    @property
    def lag_bytes(self) -> int:
        """Return how far the destination is behind the source, as last heard."""
        return max(0, self.source_end - self.copied_to)

    @property
    def fetch_offset(self) -> int:
        """Return where the next fetch begins: at what is held but not counted, else behind what is on its way."""
        return self.counted_to if self.counted_to < self.copied_to else self.sent_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a fetch leads to: batches[:count_only] are counted, batches[count_only:append_end] appended, others left for later."""

    copy: PartitionCopy
    count_only: int = 0
    append_end: int = 0
    conditional_start: int = 0
    """What the append names as the source's log start."""
    gap: Gap | None = None
    """Unreadable offsets in front of the batches: told, quarantined and passed in the count before the rest is carried out."""


def is_due_to_resume(copy: PartitionCopy, now_ms: int) -> bool:
    """Return whether both ends are to be asked now."""
    return (copy.phase is Phase.RESUMING or copy.phase in ERROR_PHASES) and now_ms >= copy.not_before_ms


def is_due_to_fetch(copy: PartitionCopy, now_ms: int) -> bool:
    return copy.phase is Phase.COPYING and now_ms >= copy.not_before_ms


def resumed(copy: PartitionCopy, ends: Ends, seam: TailComparison, *, counted_to: int | None, now_ms: int) -> PartitionCopy:
    """Return the copy once both ends are known.

    `counted_to` is how far the audit has been told, None when never: then all that the destination holds is counted.
    """
    copied_to = ends.destination_end
    copy = replace(copy, source_end=ends.source_end, copied_to=copied_to, sent_to=copied_to, is_jumping=False, looks_at_gap=0)
    if ends.source_end < copied_to:
        return in_error(
            copy,
            Phase.SOURCE_BEHIND,
            f"the source ends at {ends.source_end} and the destination at {copied_to}: the source has lost its tail; "
            f"restore it, or delete the destination's topic to copy anew",
            now_ms,
        )
    if seam is TailComparison.DIFFERENT:
        return in_error(
            copy,
            Phase.DIVERGED,
            f"the batch before the destination's end {copied_to} is another one in the source: the source has been written "
            f"anew there; delete the destination's topic to copy anew",
            now_ms,
        )
    counted = ends.destination_start if counted_to is None else counted_to
    copy = replace(copy, phase=Phase.COPYING, counted_to=counted, not_before_ms=0)
    return _skipping(copy, ends.source_start) if copy.fetch_offset < ends.source_start else copy


def out_of_range(copy: PartitionCopy, log_start_offset: int, now_ms: int) -> PartitionCopy:
    """Return the copy after the source said that it does not hold the fetch offset."""
    if log_start_offset > copy.fetch_offset:
        return _skipping(copy, log_start_offset)
    return troubled(copy, f"the source does not reach offset {copy.fetch_offset}: asking for both ends again", now_ms)


def skipped(copy: PartitionCopy) -> tuple[PartitionCopy, Gap | None]:
    """Return the copy once what was counted is reported and the count begins anew at `counted_to`, and the gap if data is lost
    by it.

    Without a gap all of it is in the destination, and only the count of a part of it cannot be made up for.
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
) -> Taken:
    """Return what a fetch from `copy.fetch_offset` leads to."""
    expected = copy.fetch_offset
    copy = replace(copy, source_end=max(high_watermark, expected))
    if not headers:
        return Taken(copy=replace(copy, trouble=None, attempt=0) if copy.sent_to == copy.copied_to else copy)
    first = headers[0].position
    if first < expected:
        # A log may start inside of a batch (DeleteRecords). Batches are copied whole, so the copy goes on where that one begins.
        if not expected <= log_start_offset < headers[0].next_offset:
            return Taken(copy=_diverged(copy, headers[0], now_ms))
        expected = first
    gap = None
    if first > expected:
        if copy.looks_at_gap + 1 < LOOKS_AT_A_GAP:
            looked = troubled(copy, f"the source gives nothing from {expected} to {first}: looking again", now_ms)
            return Taken(copy=replace(looked, phase=Phase.COPYING, looks_at_gap=copy.looks_at_gap + 1))
        if expected < log_start_offset:
            return Taken(copy=_skipping(copy, first))
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
            return Taken(copy=_diverged(copy, header, now_ms))
        append_bytes += header.size_bytes
        if append_end > count_only and append_bytes > MOST_APPEND_BYTES:
            break
        append_end += 1
    if count_only:
        copy = replace(copy, counted_to=max(copy.counted_to, headers[count_only - 1].next_offset))
    if append_end == count_only:
        return Taken(copy=replace(copy, trouble=None, attempt=0), count_only=count_only, append_end=append_end, gap=gap)
    begins = headers[count_only].position
    conditional_start = begins if copy.is_jumping else min(log_start_offset, begins)
    return Taken(
        copy=replace(copy, sent_to=headers[append_end - 1].next_offset, is_jumping=False),
        count_only=count_only,
        append_end=append_end,
        conditional_start=conditional_start,
        gap=gap,
    )


def acknowledged(copy: PartitionCopy, to_offset: int) -> PartitionCopy:
    """Return the copy once the destination holds everything up to `to_offset` and it is counted."""
    return replace(
        copy,
        copied_to=max(copy.copied_to, to_offset),
        counted_to=max(copy.counted_to, to_offset),
        source_end=max(copy.source_end, to_offset),
        trouble=None,
        attempt=0,
    )


def destination_seen(copy: PartitionCopy, destination_end: int, now_ms: int) -> PartitionCopy:
    """Return the copy after a look at where the destination ends, nothing being on its way.

    It may have lost what was not on its disk yet. An append would be told so, but where nothing new comes there is none.
    """
    if copy.phase is not Phase.COPYING or destination_end >= copy.copied_to:
        return copy
    return troubled(copy, f"the destination ends at {destination_end}, it had {copy.copied_to}: copying again from there", now_ms)


def troubled(copy: PartitionCopy, what: str, now_ms: int) -> PartitionCopy:
    """Return the copy after something that may pass: wait, ask for both ends, go on from there."""
    wait_ms = BACKOFF.wait_ms(copy.attempt)
    return replace(copy, phase=Phase.RESUMING, trouble=what, attempt=copy.attempt + 1, not_before_ms=now_ms + wait_ms)


def in_error(copy: PartitionCopy, phase: Phase, what: str, now_ms: int) -> PartitionCopy:
    """Return the copy in an error state: nothing is written, and it is looked at again now and then."""
    return replace(copy, phase=phase, trouble=what, attempt=copy.attempt + 1, not_before_ms=now_ms + RECHECK_MS)


def _skipping(copy: PartitionCopy, to_offset: int) -> PartitionCopy:
    return replace(copy, phase=Phase.SKIPPING, skip_to=to_offset, looks_at_gap=0, not_before_ms=0)


def _diverged(copy: PartitionCopy, header: BatchHeader, now_ms: int) -> PartitionCopy:
    return in_error(
        copy,
        Phase.DIVERGED,
        f"the source's batch {header.position} to {header.next_offset} lies across offset {copy.fetch_offset}, where the "
        f"destination has a border: the source has been written anew; delete the destination's topic to copy anew",
        now_ms,
    )
