"""Keeps the verdict of every window up to date, and remembers each change of one with its time.

Only windows that may have changed are judged again: those with news, those that are not final, and all of a topic when
something touched them all (a producer that announced itself, a recount). Decides nothing: `model.verdict` does.
"""

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ...runtime.clock import Clock
from ...runtime.lifecycle import StopSignal
from ...runtime.logs import get_logger
from ..model.build_facts import window_facts
from ..model.facts import Verdict
from ..model.verdict import decide
from .store.audit_log import AuditLog, VerdictChange
from .store.ledger import Ledger

log = get_logger(__name__)

MOST_PAUSE = 5
"""The judge rests at least this many times as long as its last round took, so that many open windows do not take the
processor.
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """A window's verdict as it stands."""

    window_start_ms: int
    window_end_ms: int
    verdict: Verdict


class Judge:
    """The thread that judges, and the answers to who asks in between."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stop = StopSignal()
        # Lock order: the judge's, then the ledger's.
        self._lock = threading.Lock()
        self._judged: dict[str, dict[int, Judged]] = {}
        self._stored: dict[tuple[str, int], tuple[str, int, int, str | None]] = {}
        self._thread = threading.Thread(target=self._run, name="audit-judge", daemon=True)

    def open(self) -> None:
        """Load the verdicts that were stored last, so that only changes are noted."""
        self._stored = self._ledger.ask(AuditLog.verdicts)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def windows(self, topic: str, from_ms: int | None = None, to_ms: int | None = None) -> list[Judged]:
        """Return the topic's windows that overlap [from_ms, to_ms), by time, judged as of now."""
        with self._lock:
            self._bring_up_to_date(topic)
            judged = self._judged.get(topic, {})
            return [
                judged[start]
                for start in sorted(judged)
                if (to_ms is None or start < to_ms) and (from_ms is None or judged[start].window_end_ms > from_ms)
            ]

    def _run(self) -> None:
        while not self._stop.is_set():
            began_ms = self._clock.monotonic_ms()
            try:
                for topic in self._ledger.topics():
                    with self._lock:
                        self._bring_up_to_date(topic)
            except Exception:
                log.error("not_judging", exc_info=True)
            took_ms = self._clock.monotonic_ms() - began_ms
            self._stop.wait(max(self._ledger.settings.judge_every_ms, MOST_PAUSE * took_ms))

    def _bring_up_to_date(self, topic: str) -> None:
        judged = self._judged.setdefault(topic, {})
        with self._ledger.reading() as books:
            book = books.topics.get(topic)
            if book is None:
                return
            candidates = set(book.windows) if book.all_changed else book.changed
            candidates = candidates | {start for start, one in judged.items() if not one.verdict.kind.is_final}
            if not candidates:
                return
            facts = self._ledger.topic_facts(topic)
            now_ms = self._clock.now_ms()
            changes: list[VerdictChange] = []
            gone: list[int] = []
            for start in candidates:
                if not books.is_mentioned(topic, start):
                    gone.append(start)
                    continue
                window = window_facts(books, topic, start)
                verdict = decide(facts, window, now_ms=now_ms)
                judged[start] = Judged(start, window.window_end_ms, verdict)
                change = self._change(topic, start, verdict, now_ms)
                if change is not None:
                    changes.append(change)
            for start in gone:
                judged.pop(start, None)
            self._note(topic, changes, [start for start in gone if (topic, start) in self._stored])
            # Only now: what could not be noted is judged again.
            book.changed.clear()
            book.all_changed = False

    def _change(self, topic: str, start: int, verdict: Verdict, now_ms: int) -> VerdictChange | None:
        now = (verdict.kind.value, verdict.missing, verdict.extra, verdict.first_bad_tier)
        before = self._stored.get((topic, start))
        if before == now:
            return None
        return VerdictChange(now_ms, topic, start, before[0] if before else None, *now, verdict.reason)

    def _note(self, topic: str, changes: list[VerdictChange], gone: list[int]) -> None:
        if not changes and not gone:
            return

        def write(notes: AuditLog) -> None:
            notes.put_verdicts(changes)
            for start in gone:
                notes.drop_verdicts(topic, start)

        self._ledger.note(write)
        for one in changes:
            self._stored[topic, one.window_start_ms] = (one.to_verdict, one.missing, one.extra, one.first_bad_tier)
        for start in gone:
            del self._stored[topic, start]
        turns = Counter((one.from_verdict or "new", one.to_verdict) for one in changes)
        for (before, after), count in turns.items():
            example = next(one for one in changes if (one.from_verdict or "new", one.to_verdict) == (before, after))
            log.info(
                "verdict_changed", topic=topic, windows=count, before=before, after=after,
                window_start_ms=example.window_start_ms, missing_count=example.missing,
                extra_count=example.extra, reason=example.reason,
            )  # fmt: skip


def as_json(topic: str, judged: Judged) -> dict[str, Any]:
    """Return one window as `GET /api/completeness` gives it."""
    verdict = judged.verdict
    return {
        "topic": topic,
        "window_start_ms": judged.window_start_ms,
        "window_end_ms": judged.window_end_ms,
        "tiers": dict(verdict.tiers),
        "quarantined": verdict.quarantined,
        "verdict": verdict.kind.value,
        "missing": verdict.missing,
        "extra": verdict.extra,
        "first_bad_tier": verdict.first_bad_tier,
        "unaudited": verdict.unaudited,
        "redelivered": verdict.redelivered,
        "losses": dict(verdict.losses),
        "silent": list(verdict.silent),
        "retired": list(verdict.retired),
        "reason": verdict.reason,
        "differences": [
            {"tier": one.tier, "partition": one.partition, "missing": one.missing, "extra": one.extra}
            for one in verdict.differences
        ],
    }
