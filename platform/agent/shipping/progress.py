"""How far everything is settled that was handed over to the agent's sources: what their runs and the enrolment may seal."""

from collections.abc import Iterable

from ..audit_reports.audit_reports import AuditReports
from ..plan import sealing
from ..plan.sealing import SourceProgress
from ..state.rows import RunRow
from .open_source import OpenSource

LATENESS_MS = 60_000
"""How late the events of sources that are not found yet may be, at least."""


class Progress:
    """What scans and sources have shown."""

    def __init__(self, audit_reports: AuditReports) -> None:
        self._audit_reports = audit_reports
        self.scanned_ms: int | None = None
        """When the last scan of all groups began (wall clock)."""
        self._blocked: set[str] = set()
        """Groups in which not everything could be opened."""
        self._group_of: dict[str, str] = {}
        """Instance of a run that the sources of a group share → the group."""
        self._active: dict[int, list[SourceProgress]] = {}
        self._runs_open: set[int] = set()
        """As of the last `look`: the progress of each run's active sources, and the runs with any source."""
        self._lateness_ms = LATENESS_MS
        self._candidate: tuple[int, set[int]] | None = None
        """A scan's begin, and the runs of sources found by then that the audit has not heard of."""
        self._enrolled_ms: int | None = None

    def add_group(self, instance: str, group: str) -> None:
        """Note that a group's sources share this run."""
        self._group_of[instance] = group

    def add_lateness(self, lateness_ms: int) -> None:
        """Note how late the events of a source may be: others of its kind may come."""
        self._lateness_ms = max(self._lateness_ms, lateness_ms)

    def scanned(self, began_ms: int, blocked: set[str]) -> None:
        """Note a scan: when it began, and in which groups not everything could be opened."""
        self.scanned_ms = began_ms
        self._blocked = blocked
        if not blocked and self._candidate is None:
            self._candidate = began_ms, self._audit_reports.unannounced()

    def look(self, sources: Iterable[OpenSource]) -> None:
        """Look at how far every source is settled."""
        self._active, self._runs_open = {}, set()
        for one in sources:
            self._runs_open.add(one.row.run_id)
            if one.is_active:
                self._active.setdefault(one.row.run_id, []).append(one.progress())

    def settled_up_to_ms(self, run: RunRow) -> int | None:
        """Return the instant before which everything handed over to the run's sources is settled, None if that is not known."""
        group = self._group_of.get(run.facts.instance)
        if run.id not in self._runs_open if group is None else group in self._blocked:
            return None
        return sealing.settled_up_to_ms(self._active.get(run.id, ()), scanned_ms=self.scanned_ms)

    def is_alive(self, run: RunRow) -> bool:
        """Return whether somebody knows what the run's sources hold; before the first scan that is taken to be so."""
        return self.scanned_ms is None or run.id in self._runs_open or run.facts.instance in self._group_of

    def enrolment_border_ms(self) -> int | None:
        """Return the border up to which no source can turn up that the audit does not know; None: not known yet."""
        if self._candidate is not None:
            began_ms, waited_for = self._candidate
            if not waited_for & self._audit_reports.unannounced():
                self._enrolled_ms = began_ms
                self._candidate = None
        if self._enrolled_ms is None:
            return None
        return sealing.enrolment_border_ms(scan_began_ms=self._enrolled_ms, lateness_ms=self._lateness_ms)
