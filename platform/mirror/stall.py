"""Decides whether the mirror makes no progress: which partitions are behind their source and have not moved for too long. Pure.

A partition has moved when the destination holds more of it. One stalled partition among many that move counts too: its source's
retention does not wait for it. A partition whose copy stopped with an error makes no progress, also where nothing new came
since. A mirror that copies and cannot report to the audit so is told, too.
"""

from collections.abc import Container, Mapping, Sequence
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
    copy: PartitionCopy | None = None
    """The state that was observed."""

    @property
    def waits(self) -> bool:
        return self.lag_bytes > 0 or self.is_stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """All partitions at one moment. Values are replaced, never changed."""

    partitions: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)
    waiting: Sequence[TopicPartition] = ()
    """Those that are behind or stopped."""
    troubled: Sequence[TopicPartition] = ()
    """Those whose last step failed."""
    at_ms: int = field(default=0, compare=False)
    """When it was observed: up to then those that do not wait had moved, or had nothing to move for."""

    @property
    def lag_bytes(self) -> int:
        return sum(self.partitions[name].lag_bytes for name in self.waiting)

    @property
    def stalled_since_ms(self) -> int | None:
        """Return since when the longest waiting partition has not moved; None if none is behind or stopped."""
        return min((self.partitions[name].moved_at_ms for name in self.waiting), default=None)


def observed(
    before: Progress,
    copies: Mapping[TopicPartition, PartitionCopy],
    source: Mapping[TopicPartition, tuple[int, int]],
    now_ms: int,
    held: Container[TopicPartition] = (),
) -> Progress:
    """Return the progress now. `source` holds where partitions of the source begin and end that are not fetched now.

    A partition that is not copied yet is behind by everything that the source holds of it. `held`: those that an operator has
    paused or throttled; they stand still because they are to. Of most partitions nothing has changed: they cost one comparison.
    """
    found: dict[TopicPartition, PartitionProgress] = {}
    waiting: list[TopicPartition] = []
    troubled: list[TopicPartition] = []
    times = before.at_ms, now_ms
    for name, copy in copies.items():
        then = before.partitions.get(name)
        if then is not None and then.copy is copy and not then.waits and copy.trouble is None and name not in source:
            found[name] = then
            continue
        one = found[name] = _observed(then, copy, source.get(name, (0, 0)), times, is_held=name in held)
        if one.waits:
            waiting.append(name)
        if copy.trouble is not None:
            troubled.append(name)
    for name in source.keys() - copies.keys():
        one = found[name] = _observed(before.partitions.get(name), None, source[name], times, is_held=name in held)
        if one.waits:
            waiting.append(name)
    return Progress(partitions=found, waiting=tuple(waiting), troubled=tuple(troubled), at_ms=now_ms)


def _observed(
    then: PartitionProgress | None, copy: PartitionCopy | None, source: tuple[int, int], times: tuple[int, int], *, is_held: bool
) -> PartitionProgress:
    (start, end), (before_ms, now_ms) = source, times
    copied_to = copy.copied_to if copy is not None else 0 if then is None else then.copied_to
    if copy is not None and copy.source_end > end:
        end = copy.source_end
    lag_bytes = max(0, end - max(copied_to, start))
    is_stopped = copy is not None and copy.phase in ERROR_PHASES
    # A move backwards counts, too: the copy was deleted so that it is created again.
    is_moved = then is None or is_held or not (lag_bytes or is_stopped) or copied_to != then.copied_to
    moved_at_ms = now_ms if then is None or is_moved else then.moved_at_ms if then.waits else before_ms
    return PartitionProgress(copied_to=copied_to, lag_bytes=lag_bytes, moved_at_ms=moved_at_ms, is_stopped=is_stopped, copy=copy)


def stalled(progress: Progress, *, now_ms: int, stall_after_ms: int) -> list[TopicPartition]:
    """Return the partitions that are behind or stopped and have not moved for `stall_after_ms`, the longest waiting first."""
    late = [
        (at_ms, name) for name in progress.waiting if now_ms - (at_ms := progress.partitions[name].moved_at_ms) >= stall_after_ms
    ]
    return [name for _, name in sorted(late)]


def last_error(progress: Progress, names: Sequence[TopicPartition], trouble: str | None) -> str | None:
    """Return the last error of the first of these partitions that has one (none given: of any), else `trouble`."""
    copies = (progress.partitions[name].copy for name in names or sorted(progress.troubled))
    errors = (copy.trouble for copy in copies if copy is not None and copy.trouble is not None)
    return next(errors, trouble)


def why_stalled(progress: Progress, names: list[TopicPartition], error: str) -> str | None:
    """Return one line for people, None if nothing makes no progress."""
    if not names:
        return None
    since = _instant(progress.partitions[names[0]].moved_at_ms)
    behind = sum(progress.partitions[name].lag_bytes for name in names)
    named = ", ".join(f"{name.topic}-{name.partition}" for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"has made no progress since {since}: {error} ({named}{more}, {behind} bytes behind)"


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
