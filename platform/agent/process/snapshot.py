"""What an agent shows of itself, taken between two turns: for `status`, /status and /metrics. Values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ...runtime.disk_room import look, why_no_room
from ..shipping.shipper import Shipper

MOST_SOURCES = 500
"""Those farthest behind are shown one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """One source."""

    name: str
    topic: str
    settled: str
    """The position up to which every record is acknowledged or counted."""
    lag_bytes: int
    """Not settled."""
    lag_ms: int
    """The age of the first record that is not settled; 0: there is none."""
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One agent at one moment."""

    name: str
    instance: str
    at_ms: int
    is_ready: bool
    reason: str | None
    """Why it is not ready."""
    sources: Sequence[SourceState] = ()
    """At most `MOST_SOURCES`."""
    source_count: int = 0
    lag_bytes: int = 0
    lag_ms: int = 0
    """The largest of any source."""
    acknowledged: int = 0
    """Records, since the state was made."""
    ambiguous: int = 0
    """Records of batches of which nobody can tell whether they are stored; told to the audit as uncertain."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Name of the loss → records."""
    batches: int = 0
    """Planned and not settled."""
    held_bytes: int = 0
    reports: int = 0
    """Not acknowledged by the audit topic."""
    unopened: Mapping[str, str] = field(default_factory=dict)
    events: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Group of sources → what happened to them since the agent's start (`truncated`, `damaged`, …) → how often."""
    trouble: Sequence[str] = ()
    """What the cluster, the audit topic and the registry last refused, and a full disk; empty when all works."""

    def words(self) -> dict[str, Any]:
        """Return it as JSON values."""
        words = {one.name: getattr(self, one.name) for one in fields(self)}
        # Once a second, for hundreds of sources: `asdict` copies each value in depth.
        words["sources"] = [{name: getattr(one, name) for name in _SOURCE_NAMES} for one in self.sources]
        return words


_SOURCE_NAMES = tuple(one.name for one in fields(SourceState))


def snapshot_of(shipper: Shipper, now_ms: int) -> Snapshot:
    """Return the shipper's state; call it between turns."""
    no_room = why_no_room(look(Path(shipper.settings.state)))
    totals = dict(shipper.store.totals())
    shown: list[SourceState] = []
    for one in shipper.sources.open_sources:
        lag_bytes = lag_ms = 0
        if one.is_active:
            lag = one.source.lag(one.row.settled)
            lag_bytes, lag_ms = lag.bytes, 0 if lag.oldest_ms is None else max(0, now_ms - lag.oldest_ms)
        if lag_bytes or one.trouble is not None or len(shown) < MOST_SOURCES:
            shown.append(
                SourceState(
                    name=one.row.name,
                    topic=one.source.topic,
                    settled=one.row.settled,
                    lag_bytes=lag_bytes,
                    lag_ms=lag_ms,
                    trouble=one.trouble,
                )
            )
    shown.sort(key=lambda one: (-one.lag_bytes, one.name))
    errors = (shipper.delivery.last_error, shipper.reports.last_error, shipper.schema_ids.last_error)
    trouble = [str(error) for error in errors if error is not None] + ([] if no_room is None else [no_room])
    reason = None
    if no_room is not None:
        reason = no_room
    elif shipper.sources.progress.scanned_ms is None:
        reason = "it has not looked for sources yet"
    elif shipper.audit_reports.enrolment.announced_ids < 0:
        reason = "the audit has no report of it yet" + (f": {trouble[0]}" if trouble else "")
    return Snapshot(
        name=shipper.settings.name,
        instance=shipper.settings.instance,
        at_ms=now_ms,
        is_ready=reason is None,
        reason=reason,
        sources=shown[:MOST_SOURCES],
        source_count=len(shipper.sources.open_sources),
        lag_bytes=sum(one.lag_bytes for one in shown),
        lag_ms=max((one.lag_ms for one in shown), default=0),
        acknowledged=totals.pop("acknowledged", 0),
        ambiguous=totals.pop("ambiguous", 0),
        losses=totals,
        batches=shipper.delivery.planned.count,
        held_bytes=shipper.delivery.planned.held_bytes,
        reports=shipper.audit_reports.reports_under_way,
        unopened=shipper.sources.unopened,
        events=shipper.sources.events,
        trouble=trouble,
    )
