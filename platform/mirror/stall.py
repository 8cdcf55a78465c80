"""Decides whether the mirror stands still: which partitions are behind their source and have not moved for too long. Pure.

A partition has moved when the destination holds more of it. One stalled partition among many that move counts too: its source's
retention does not wait for it. A partition whose copy stopped with an error stands still, also where nothing new came since. A
mirror that copies and cannot tell the audit so is told, too.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ..client.fetch.fetched import TopicPartition
from .partition_copy import ERROR_PHASES, PartitionCopy

STALL_AFTER_MS = 60_000
"""Longer than any restart of a broker and any retry; well below the retention of a source."""
NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """One partition at one moment."""

    copied_to: int
    lag_bytes: int
    moved_at_ms: int
    """Wall clock: when it last moved, or last had neither lag nor error."""
    is_stopped: bool = False
    """The copy stopped with an error."""

    @property
    def waits(self) -> bool:
        return self.lag_bytes > 0 or self.is_stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """All partitions at one moment. Values are replaced, never changed."""

    partitions: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)

    @property
    def lag_bytes(self) -> int:
        return sum(one.lag_bytes for one in self.partitions.values())

    @property
    def stalled_since_ms(self) -> int | None:
        """Return since when the longest waiting partition has not moved; None if none is behind or stopped."""
        return min((one.moved_at_ms for one in self.partitions.values() if one.waits), default=None)


def observed(
    before: Progress,
    copies: Mapping[TopicPartition, PartitionCopy],
    source: Mapping[TopicPartition, tuple[int, int]],
    now_ms: int,
    held: Container[TopicPartition] = (),
) -> Progress:
    """Return the progress now. `source` holds where each partition of the source begins and ends, as last reported.

    A partition that is not copied yet is behind by everything that the source holds of it. `held`: those that an operator has
    paused or throttled; they stand still because they are to.
    """
    found = {}
    for name in source.keys() | copies.keys():
        copy, then = copies.get(name), before.partitions.get(name)
        start, end = source.get(name, (0, 0))
        copied_to = copy.copied_to if copy is not None else 0 if then is None else then.copied_to
        if copy is not None and copy.source_end > end:
            end = copy.source_end
        lag_bytes = max(0, end - max(copied_to, start))
        is_stopped = copy is not None and copy.phase in ERROR_PHASES
        # A move backwards counts, too: the copy was deleted so that it is made anew.
        is_moved = then is None or name in held or not (lag_bytes or is_stopped) or copied_to != then.copied_to
        moved_at_ms = now_ms if then is None or is_moved else then.moved_at_ms
        found[name] = PartitionProgress(copied_to=copied_to, lag_bytes=lag_bytes, moved_at_ms=moved_at_ms, is_stopped=is_stopped)
    return Progress(partitions=found)


def stalled(progress: Progress, *, now_ms: int, stall_after_ms: int) -> list[TopicPartition]:
    """Return the partitions that are behind or stopped and have not moved for `stall_after_ms`, the longest waiting first."""
    late = [
        (one.moved_at_ms, name)
        for name, one in progress.partitions.items()
        if one.waits and now_ms - one.moved_at_ms >= stall_after_ms
    ]
    return [name for _, name in sorted(late)]


def last_error(copies: Mapping[TopicPartition, PartitionCopy], names: list[TopicPartition], trouble: str | None) -> str | None:
    """Return the last error, of these partitions first; None if there is none."""
    errors = [copy.trouble for name in names if (copy := copies.get(name)) is not None and copy.trouble is not None]
    return next(iter(errors), trouble)


def why_stalled(progress: Progress, names: list[TopicPartition], error: str) -> str | None:
    """Return one line for people, None if nothing stands still."""
    if not names:
        return None
    since = _instant(progress.partitions[names[0]].moved_at_ms)
    behind = sum(progress.partitions[name].lag_bytes for name in names)
    named = ", ".join(f"{name.topic}-{name.partition}" for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"stands still since {since}: {error} ({named}{more}, {behind} bytes behind)"


def why_unreported(failure: tuple[int, str] | None, *, now_ms: int, stall_after_ms: int) -> str | None:
    """Return one line for people when reports have failed for `stall_after_ms`. `failure`: since when, and the last error."""
    if failure is None or now_ms - failure[0] < stall_after_ms:
        return None
    return f"its reports do not reach the audit since {_instant(failure[0])}: {failure[1]}"


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def facts(progress: Progress, *, source: str, destination: str, source_error: str | None, error: str | None) -> dict[str, Any]:
    """Return JSON values for the status file, by cluster."""
    return {
        "source": {"bootstrap": source, "last_error": source_error},
        "destination": {
            "bootstrap": destination,
            "lag_bytes": progress.lag_bytes,
            "no_progress_since_ms": progress.stalled_since_ms,
            "last_error": error,
        },
    }
