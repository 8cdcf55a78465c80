"""The audit's `/metrics`: what Prometheus reads, made from the stored figures on each scrape.

Bounded: of more than `MOST_TOPICS` topics, and of more than `MOST_SINKS` pairs of a topic and a sink, the rest are summed under
empty labels. `deploy/alerts/headrace-audit.rules.yml` alerts on these names.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ....runtime.clock import Clock
from ....runtime.layout import is_scratch
from ....runtime.monitoring.process_metrics import process_metrics
from ....runtime.monitoring.text_format import Metric, text
from ..judge import Judge
from ..store.ledger import Ledger

PREFIX = "headrace_audit_"
MOST_TOPICS = 1_000
MOST_SINKS = 500
"""Pairs of a topic and a sink."""


class Family(NamedTuple):
    """One metric."""

    kind: str
    labels: tuple[str, ...]
    doc: str


TABLE: Mapping[str, Family] = {
    "ready": Family("gauge", (), "1 while /readyz answers 200."),
    "windows": Family("gauge", ("topic", "verdict"), "Windows that are kept one by one, by their verdict."),
    "missing_records": Family("gauge", ("topic",), "Records missing in windows that are kept one by one."),
    "doubled_records": Family("gauge", ("topic",), "Records that a tier has twice, in the same windows."),
    "altered_records": Family("gauge", ("topic",), "Records whose content changed, in the same windows."),
    "sink_windows": Family("gauge", ("topic", "sink", "verdict"), "The same windows, by the verdict of a sink's row."),
    "sink_missing_records": Family("gauge", ("topic", "sink"), "Records that a sink's destination lacks, in the same windows."),
    "sink_doubled_records": Family(
        "gauge", ("topic", "sink"), "Records that a sink has twice, or that the log never had, in the same windows."
    ),
    "sink_quarantined_records": Family(
        "gauge", ("topic", "sink"), "Records that a sink put into quarantine, in the same windows."
    ),
    "unsealed_producers": Family("gauge", (), "Runs of producers without a final report that are not retired."),
    "silent_producers": Family("gauge", (), "Those of them that have reported nothing for longer than their deadline."),
    "hearing_lag_seconds": Family("gauge", (), "Time since everything on the audit topic was read."),
    "malformed_reports_total": Family("counter", (), "Messages on the audit topic that are not reports."),
    "reports_lost_total": Family("counter", (), "Times that the audit topic lost reports which the audit had not read."),
    "judged_windows_total": Family("counter", (), "Windows judged since the service began."),
    "judge_round_seconds": Family("gauge", (), "Time of the judge's last round."),
    "store_writable": Family("gauge", (), "0 if the last write to the store failed, mostly because the disk is full."),
}


class Metrics:
    """Makes the page."""

    def __init__(self, ledger: Ledger, judge: Judge, clock: Clock) -> None:
        self._ledger = ledger
        self._judge = judge
        self._clock = clock

    def page(self, *, ready: bool) -> bytes:
        """Return the page in Prometheus' text format."""
        found = self._values(ready).items()
        own = [Metric(PREFIX + name, *_meta(name), [_named(name, *one) for one in values]) for name, values in found]
        return text([*own, *process_metrics("audit")]).encode()

    def _values(self, ready: bool) -> dict[str, Iterable[tuple[tuple[str, ...], float]]]:
        now_ms = self._clock.now_ms()
        windows: dict[tuple[str, ...], float] = {}
        figures: list[dict[tuple[str, ...], float]] = [{}, {}, {}]
        known: set[str] = set()
        for topic, verdict, count, *wrong in self._ledger.books.verdict(lambda stored: stored.tallies()):
            label = topic if topic in known or len(known) < MOST_TOPICS else ""
            known.add(label)
            windows[label, verdict] = windows.get((label, verdict), 0) + count
            for mine, value in zip(figures, wrong, strict=True):
                mine[label,] = mine.get((label,), 0) + value
        runs = [run for run in self._ledger.unsealed() if run["retired"] is None]
        deadline_ms = self._ledger.books.settings.default_deadline_ms
        hearing = self._ledger.hearing()
        heard_ms = hearing["heard_all_ms"] or hearing["listening_since_ms"]
        return {
            "ready": _one(ready),
            "windows": windows.items(),
            "missing_records": figures[0].items(),
            "doubled_records": figures[1].items(),
            "altered_records": figures[2].items(),
            **self._of_sinks(),
            "unsealed_producers": _one(len(runs)),
            "silent_producers": _one(sum(run["silent_ms"] > deadline_ms for run in runs)),
            "hearing_lag_seconds": _one(max(0, now_ms - heard_ms) / 1000),
            "malformed_reports_total": _one(hearing["malformed_reports"]),
            "reports_lost_total": _one(hearing["reports_lost"]),
            "judged_windows_total": _one(self._judge.judged_count),
            "judge_round_seconds": _one(self._judge.round_ms / 1000),
            "store_writable": _one(self._ledger.books.failure is None),
        }

    def _of_sinks(self) -> dict[str, Iterable[tuple[tuple[str, ...], float]]]:
        windows: Counter[tuple[str, ...]] = Counter()
        figures: dict[str, Counter[tuple[str, ...]]] = {number: Counter() for number in ("missing", "doubled", "quarantined")}
        every = [one for one in self._ledger.books.verdict(lambda stored: stored.sinks.totals()) if not is_scratch(one.topic)]
        for number, one in enumerate(every):
            labels = (one.topic, one.sink) if number < MOST_SINKS else ("", "")
            for verdict, count in one.windows.items():
                windows[*labels, verdict] += count
            for name, mine in figures.items():
                mine[labels] += one.numbers[name]
        return {"sink_windows": windows.items(), **{f"sink_{name}_records": mine.items() for name, mine in figures.items()}}


def _one(value: float) -> list[tuple[tuple[str, ...], float]]:
    return [((), float(value))]


def _meta(name: str) -> tuple[str, str]:
    return TABLE[name].kind, TABLE[name].doc


def _named(name: str, values: tuple[str, ...], value: float) -> tuple[dict[str, str], float]:
    return dict(zip(TABLE[name].labels, values, strict=True)), value
