"""Decides which hours readers may see. Pure: what stands in the tables and the audit's verdicts in, one decision per hour out.

An hour is proven under five conditions. It has ended. Every window that the audit knows of it is COMPLETE, or ACCEPTED, or
ACCOUNTED with losses that the topic's settings allow. Its files are those that were counted. The audit has heard of exactly these
rows. The table could hold the schemas of all its records, or the settings allow that it could not. UNKNOWN is never complete. A
published hour stays published while late records make its windows OPEN; it is withdrawn when published rows themselves prove
missing, doubled or altered.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol

from ...audit.model.tiers import CHAIN, QUARANTINE, WAREHOUSE
from ...audit.model.windows import in_words
from ...wire.quarantine_record import SCHEMA_REFUSED
from ..errors import WarehouseError
from ..warehouse.proofs import ERASED, REMOVED

HOUR_MS = 3_600_000
COMPLETE = "COMPLETE"
ACCEPTED = "ACCEPTED"
"""Complete except for what a person answers for, with a name and a reason: a retired producer, a known loss, an erasure."""
ACCOUNTED = "ACCOUNTED"
"""Balanced, and some records are lost by name."""
OPEN = "OPEN"
MOST_EMPTY_HOURS = 7 * 24
"""A longer gap between two hours with records is no run of empty hours to be published one by one: the topic slept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedWindow:
    """One window as the audit sees it."""

    window_start_ms: int
    verdict: str
    warehouse_count: int | None
    """Rows reported to the audit; None: not reported."""
    reason: str
    words: Mapping[str, Any]
    """The audit's full answer, for the proof."""

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> "AuditedWindow":
        """Return one element of `GET /api/completeness`. Raises WarehouseError for anything else."""
        try:
            start, verdict, count = words["window_start_ms"], words["verdict"], words["tiers"].get(WAREHOUSE)
            if not isinstance(start, int) or not isinstance(verdict, str) or not isinstance(count, int | None):
                raise TypeError(f"window {start!r}, verdict {verdict!r}, {WAREHOUSE} {count!r}")
            return cls(
                window_start_ms=start, verdict=verdict, warehouse_count=count, reason=str(words.get("reason") or ""), words=words
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise WarehouseError(f"the audit's answer is no list of windows ({type(error).__name__}: {error})") from error

    @property
    def hour(self) -> int:
        return self.window_start_ms // HOUR_MS

    def number(self, name: str) -> int:
        """Return a number of the answer, such as `erased`; 0 where it says nothing."""
        found = self.words.get(name)
        return found if isinstance(found, int) else 0

    def is_proven(self, despite: Collection[str]) -> bool:
        if self.verdict == ACCOUNTED:
            return set(self.words.get("accounted") or ()) <= set(despite) and bool(self.words.get("accounted"))
        return self.verdict in (COMPLETE, ACCEPTED)


class PublishedRows(Protocol):
    """The records that readers see of one hour."""

    def count(self, partition: int, first_offset: int, count: int, /) -> int:
        """Return how many rows have an offset in the stretch."""
        ...

    def loaded_to(self, partition: int, /) -> int:
        """Return how far the partition was loaded when the hour was published."""
        ...

    def has_own_files(self) -> bool:
        """Return whether the rows are in other files than those of the branch `loads`, and these are as they were proven."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFacts:
    """What the tables say of one hour."""

    hour: int
    """Hours since the epoch."""
    row_count: int = 0
    """Rows on the branch `loads`."""
    late: int = 0
    """Rows that are loaded and not published."""
    is_reloaded: bool = False
    """Files that a reload wrote are to replace published ones."""
    blocked: str = ""
    """Why these cannot be added; empty: they can."""
    is_published: bool = False
    is_counted: bool = True
    """Its files are those that the count has read."""
    differs: bool = False
    """The count found other rows than the load had decoded."""
    spoiled: str = ""
    """What is wrong with its published files, by themselves; empty: nothing."""
    refused: int = 0
    """Records in quarantine because the table cannot hold the schema that they were written with."""
    removed: int = 0
    """Published rows that somebody else's snapshot removed."""
    after_count: int | None = None
    """Rows that readers would get after a publish; None: as many as the branch `loads` has."""
    delete_files: int = 0
    """Delete files of others (merge-on-read) on `main`."""

    @property
    def lacking(self) -> int:
        """Rows of the branch `loads` that readers would not get after a publish."""
        return 0 if self.after_count is None else max(0, self.row_count - self.after_count)


Action = Literal["publish", "keep", "withdraw", "shut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourDecision:
    """What to do with one hour, and why."""

    hour: int
    row_count: int
    action: Action
    """`publish` also extends a published hour; `keep` leaves it as it is."""
    reason: str
    may_change_soon: bool = False
    """Waiting a little may open it: a window is still OPEN, or the audit has not processed the latest report."""
    is_settled: bool = False
    """Published, and nothing more is known that should be."""
    verdict: str = COMPLETE
    windows: tuple[AuditedWindow, ...] = field(default=())


def decide(
    facts: HourFacts,
    windows: Sequence[AuditedWindow],
    published: PublishedRows | None,
    *,
    despite: Collection[str] = (),
    now_ms: int,
) -> HourDecision:
    """Return the decision for one hour; `published` is asked only where the audit names differences."""
    unproven, soon = _unproven(facts, windows, despite, now_ms)
    erased = sum(window.number("erased") for window in windows)

    def opened(reason: str) -> HourDecision:
        """Publish: with the audit's verdict only if readers get all rows that the audit has counted."""
        if not facts.lacking:
            return decided("publish", reason, is_settled=not facts.removed)
        if erased >= facts.lacking:
            return decided("publish", f"{reason}; ERASED {facts.lacking}", is_settled=True, verdict=ERASED)
        lacking = f"{facts.lacking} of {facts.row_count} rows were removed by others{_merged(facts)}: they are not added again"
        return decided("publish", f"{reason}; {lacking}", verdict=REMOVED)

    def decided(action: Action, reason: str, *, is_settled: bool = False, verdict: str = "") -> HourDecision:
        return HourDecision(
            hour=facts.hour,
            row_count=facts.row_count,
            action=action,
            reason=reason,
            may_change_soon=soon,
            is_settled=is_settled,
            verdict=verdict or _verdict(windows),
            windows=tuple(windows),
        )

    if not facts.is_published:
        unproven = unproven or facts.blocked
        return decided("shut", unproven) if unproven else opened(_proven(windows))
    spoiled = facts.spoiled or (_spoiled(windows, published) if published is not None else "")
    if facts.is_reloaded and not unproven and not facts.blocked:
        return opened(f"loaded again{f' ({spoiled})' if spoiled else ''}; {_proven(windows)}")
    if spoiled:
        return decided("withdraw", spoiled)
    if facts.is_reloaded:
        return decided("keep", f"loaded again, pending: {unproven or facts.blocked}")
    if facts.late:
        if unproven or facts.blocked:
            return decided("keep", f"{facts.late} late, pending: {unproven or facts.blocked}{_unnamed(windows)}")
        return opened(f"{facts.late} late added; {_proven(windows)}")
    if facts.removed:
        if erased >= facts.removed:
            return decided("keep", f"ERASED {facts.removed}", is_settled=True)
        return decided("keep", f"{facts.removed} rows were removed by others{_merged(facts)}: they are not added again")
    if not windows:
        soon = False
        return decided("keep", "the audit keeps no window of it any more", is_settled=True)
    if unproven:
        return decided("keep", f"published as it was proven; since then: {unproven}{_unnamed(windows)}")
    return decided("keep", _proven(windows), is_settled=True)


def empty_hours(known: Collection[int], proven: Collection[int]) -> list[int]:
    """Return the hours without any record between two known ones, of which the later is proven.

    A later window is complete only if every announced producer has sealed all before it, so nothing is missing in between.
    """
    found: list[int] = []
    ordered = sorted(hour for hour in known if hour >= 0)
    for before, after in pairwise(ordered):
        if after in proven and 1 < after - before <= MOST_EMPTY_HOURS:
            found += range(before + 1, after)
    return found


def never_proven(hour: int) -> HourDecision:
    """Return the decision for an hour without rows whose windows the audit has added to their days: it had records."""
    reason = (
        "it has no rows and was never proven, and the audit has added its windows to their day: `headrace audit report --days`"
    )
    return HourDecision(hour=hour, row_count=0, action="shut", reason=reason)


def complete_through(settled: Mapping[int, bool]) -> int | None:
    """Return the last hour up to which every hour of `settled` (hour → whether it is) is; None if the first is not."""
    last = None
    for hour in sorted(settled):
        if not settled[hour]:
            break
        last = hour
    return last


def _unproven(facts: HourFacts, windows: Sequence[AuditedWindow], despite: Collection[str], now_ms: int) -> tuple[str, bool]:
    """Return why the hour is not proven (empty: it is), and whether that may change soon."""
    if now_ms < (facts.hour + 1) * HOUR_MS:
        return "the hour has not ended", False
    rows, reported = facts.row_count, sum(window.warehouse_count or 0 for window in windows)
    is_digested = reported == rows
    bad = [window for window in windows if not window.is_proven(despite)]
    if bad:
        verdicts = ", ".join(f"{verdict} {count}" for verdict, count in _tally(bad).items())
        first = next((window for window in bad if window.reason), bad[0])
        reason = f"{len(bad)} of {len(windows)} windows are not COMPLETE ({verdicts})"
        reason += f"; first at {in_words(first.window_start_ms)} UTC: {first.reason or _named_losses(first) or first.verdict}"
        return reason, not is_digested or any(window.verdict == OPEN for window in bad)
    if not windows and rows:
        return f"it has {rows} rows and the audit knows no window of it", True
    if not is_digested:
        return f"it has {rows} rows and the audit was told of {reported}", True
    if facts.refused and SCHEMA_REFUSED not in despite:
        return f"{facts.refused} records have a schema that the table cannot hold: `headrace quarantine list` says why", False
    if not facts.is_counted:
        return "its files have changed since they were counted: `headrace load TOPIC --step count` counts them", False
    if facts.differs and not any(
        window.number(name) for window in windows for name in ("missing", "doubled", "altered", "erased")
    ):
        return "its rows differ from those that were decoded, and the audit has not said which yet", True
    return "", False


def _merged(facts: HourFacts) -> str:
    """Return, in words, by how many delete files; empty: by none."""
    count = facts.delete_files
    return f" ({count} delete file{'s' if count > 1 else ''} on main)" if count else ""


def _named_losses(window: AuditedWindow) -> str:
    return ", ".join(f"{count} {name}" for name, count in (window.words.get("accounted") or {}).items())


def _verdict(windows: Sequence[AuditedWindow]) -> str:
    found = {window.verdict for window in windows}
    return next((verdict for verdict in (ACCOUNTED, ACCEPTED) if verdict in found), COMPLETE)


def _proven(windows: Sequence[AuditedWindow]) -> str:
    others = {verdict: count for verdict, count in _tally(windows).items() if verdict != COMPLETE}
    if not others:
        return "every window is COMPLETE" if windows else "no tier knows a record of it, and a later hour is proven"
    named = " and ".join(f"{count} of {len(windows)} windows are {verdict}" for verdict, count in others.items())
    return f"{named}, the others COMPLETE"


def _spoiled(windows: Sequence[AuditedWindow], published: PublishedRows) -> str:
    """Return which difference concerns published rows; empty if none does.

    Missing: at an offset that was loaded when the hour was published, and readers lack it. Doubled in the warehouse: readers see
    it twice, or see it at all where it is a stray row, of no record. Altered there: of a published file. Doubled and altered
    before: a row that readers see. What is known to have gone from the log behind a row that readers see does not concern them.
    """
    for window in windows:
        if window.verdict in (COMPLETE, ACCEPTED, ACCOUNTED):
            continue
        gone_before: set[tuple[int, int]] = set()
        for difference in sorted(window.words.get("differences") or (), key=_tier_order):
            partition, tier = difference.get("partition"), difference.get("tier")
            if tier == QUARANTINE:
                continue  # records that are no rows
            for record in difference.get("records") or ():
                first, count, kind = record.get("first_offset"), record.get("count"), record.get("kind")
                if not isinstance(partition, int) or not isinstance(first, int) or not isinstance(count, int):
                    continue
                seen = published.count(partition, first, count)
                if kind == "missing":
                    if tier != WAREHOUSE and seen == count:
                        gone_before.add((partition, first))
                    spoils = first < published.loaded_to(partition) and seen < count
                elif kind == "doubled" and tier == WAREHOUSE:
                    is_stray = record.get("stray") is True and (partition, first) not in gone_before
                    spoils = seen > (0 if is_stray else count)
                elif tier == WAREHOUSE:
                    spoils = seen > 0 and not published.has_own_files()
                else:
                    spoils = seen > 0
                if spoils:
                    where = f"partition {partition}, offsets {first} to {first + count - 1}, at {tier}"
                    differing = sum(window.number(name) for name in ("missing", "doubled", "altered"))
                    more = f", and {differing - count} more of its records differ" if differing > count else ""
                    at = f"window {in_words(window.window_start_ms)} UTC"
                    return f"published rows are {kind}: {where}; {at} is {window.verdict}{more}"
    return ""


def _unnamed(windows: Sequence[AuditedWindow]) -> str:
    """Return, in words, how many differing records the audit counts and does not name: they are not compared with the rows."""
    differences = [one for window in windows for one in window.words.get("differences") or ()]
    more = sum(one["more"] for one in differences if isinstance(one.get("more"), int))
    return f"; and {more} more records differ that the audit does not name: published ones may be among them" if more else ""


def _tier_order(difference: Mapping[str, Any]) -> int:
    tier = difference.get("tier")
    return CHAIN.index(tier) if tier in CHAIN else len(CHAIN)


def _tally(windows: Sequence[AuditedWindow]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for window in windows:
        counts[window.verdict] = counts.get(window.verdict, 0) + 1
    return counts
