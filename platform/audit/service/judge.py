"""Keeps the verdict of every window up to date, and remembers each change of one with its time.

Only windows that may have changed are judged again: those with news, and undecided ones when something that they wait for passes
(`looks.py`). What was said last is in the store; of an undecided window it is kept in memory what it waits for. Decides nothing:
`model.verdict` does.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...runtime.clock import Clock
from ...runtime.lifecycle import StopSignal
from ...runtime.logs import get_logger
from ..model.build_facts import held_windows, window_facts
from ..model.published import with_main
from ..model.tier_reports import TierReports
from ..model.tiers import LIVE
from ..model.verdict import decide
from ..model.waits import Waits
from ..model.windows import News
from .looks import Looks
from .request_time import held
from .store.audit_log import VerdictChange
from .store.ledger import Ledger
from .store.sink_rows import is_undecided, turns
from .store.verdicts import UNDECIDED, Window
from .store.window_json import as_json

log = get_logger(__name__)

MOST_PAUSE = 5
"""The judge rests at least this many times as long as its last round took, so that it does not take the processor."""
ROLL_UP_EVERY_MS = 60_000
ROLL_UP_AT_ONCE = 500
FORGET_EVERY_MS = 3_600_000
RUNS_AT_ONCE = 200

Tell = Callable[[Sequence[Mapping[str, Any]]], None]


@dataclass(slots=True)
class _Found:
    """What judging a topic's windows came to."""

    changes: list[VerdictChange]
    of_sinks: list[dict[str, Any]]
    """Changes of sinks' rows, for who is told; they are in no list of the store."""
    judged: Collection[int] = ()
    undecided: dict[int, Waits] = field(default_factory=dict)
    """Of the judged windows those that are undecided, or of which a sink's row is → what they wait for."""


class Judge:
    """The thread that judges, and the answers to who asks in between."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        on_change: Tell | None = None,
        on_sink_change: Tell | None = None,
    ) -> None:
        """`on_change` is called with the changes of one topic, `on_sink_change` with those of its sinks; they must not wait."""
        self._ledger = ledger
        self._clock = clock
        self._on_change = on_change
        self._on_sink_change = on_sink_change
        self._stop = StopSignal()
        # Lock order: the judge's, then the ledger's.
        self._lock = threading.Lock()
        self._looks = Looks()
        self._rolled_up_ms: int | None = None
        self._forgot_ms: int | None = None
        self.round_ms = 0
        """How long the last round took."""
        self.judged_count = 0
        """Windows judged since the beginning."""
        self._thread = threading.Thread(target=self._run, name="audit-judge", daemon=True)

    def open(self) -> None:
        """Learn which topics have undecided windows, or some of which a sink's row is undecided."""
        self._ledger.books.when_loaded(self._begin)
        with self._ledger.books.lock:
            self._begin()

    def _begin(self) -> None:
        """Have all undecided windows judged: what is in memory is of another store, or of a change that was rolled back."""
        stored = self._ledger.books.verdicts
        self._looks.begin([*stored.undecided_topics(), *stored.sinks.undecided_topics()])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def bring_up_to_date(self, topic: str | None = None, *, within_ms: int | None = None) -> None:
        """Judge what is to be judged now: of one topic whatever time may have changed, too; of all (None) what is due.

        All of them may take minutes: with `within_ms` no topic is begun after that time; the judge's rounds do the others.
        """
        if topic is not None:
            if topic in self._looks or topic in self._ledger.topics_with_news():
                with held(self._lock):
                    self._judge(topic)
            return
        now_ms = self._clock.monotonic_ms()
        with held(self._lock), self._ledger.books.lock:
            due = self._looks.due(self._ledger)
        for name, starts in {**due, **dict.fromkeys(self._ledger.topics_with_news())}.items():
            if self._stop.is_set() or (within_ms is not None and self._clock.monotonic_ms() - now_ms >= within_ms):
                return
            self._ledger.books.give_way()
            with held(self._lock):
                self._judge(name, starts)

    def _run(self) -> None:
        while not self._stop.is_set():
            began_ms = self._clock.monotonic_ms()
            try:
                self.bring_up_to_date()
                self.roll_up()
                self.forget()
            except Exception:
                log.error("not_judging", exc_info=True)
            self.round_ms = self._clock.monotonic_ms() - began_ms
            self._stop.wait(max(self._ledger.books.settings.judge_every_ms, MOST_PAUSE * self.round_ms))

    def _judge(self, topic: str, starts: Collection[int] | None = None) -> None:
        """Judge the windows with news, and of the undecided ones these; None, or if there is news: all."""
        with self._ledger.judging(topic) as (books, news):
            is_all = starts is None or news is not None
            found = self._judge_windows(topic, books, news or News(), None if is_all else starts)
        self._looks.note(topic, found.judged, found.undecided, is_all=is_all)
        self._tell(topic, found)

    def _judge_windows(self, topic: str, books: TierReports, news: News, due: Collection[int] | None) -> _Found:
        """`due`: the undecided windows that are judged, None: all."""
        stored = self._ledger.books.verdicts
        book = self._ledger.books.book(topic)
        window_ms = books.window_ms
        candidates = set(news.windows) | set(stored.undecided(topic))
        held = held_windows(books, topic)
        if news.spans:
            known = set(book.windows) | set(stored.starts(topic)) | held
            candidates |= {start for start in known if news.touches(start, start + window_ms)}
        rows_alone = self._with_rows_alone(topic, news) - candidates
        if due is not None:
            candidates, rows_alone = candidates.intersection(due), rows_alone.intersection(due)
        found = _Found([], [], judged=candidates | rows_alone if due is None else due)
        if not candidates and not rows_alone:
            return found
        facts = self._ledger.topic_facts(topic)
        now_ms = self._clock.now_ms()
        for start in (*candidates, *rows_alone):
            before = stored.window(topic, start)
            exists = start in book.windows and book.windows[start].is_mentioned
            if not exists and (start not in held or (before is None and stored.is_in_a_day(topic, start))):
                if before is not None:
                    stored.drop(before)
                continue
            self.judged_count += 1
            translated = self._ledger.logs.origins.of_window(facts, window_facts(books, topic, start))
            verdict = with_main(decide(*translated, now_ms=now_ms), translated[1])
            after = as_json(topic, start, start + window_ms, verdict)
            after["late"] = _late(before, after)
            if before is not None and start in rows_alone and before["verdict"] not in UNDECIDED:
                after = {**before, "redelivered": after["redelivered"], "sinks": after["sinks"]}
            if after["verdict"] in UNDECIDED or is_undecided(after):
                found.undecided[start] = self._ledger.waits(verdict)
            if after == before:
                continue
            is_new = start in news.of_sinks or news.touches(start, start + window_ms)
            stored.put(after, before, now_ms, is_new=is_new or _figures(after) != _figures(before or after))
            of_sinks = turns(before["sinks"] if before is not None else {}, after["sinks"])
            found.of_sinks += [{"at_ms": now_ms, "topic": topic, "window_start_ms": start, **one} for one in of_sinks]
            if before is None or _figures(before) != _figures(after):
                found.changes.append(
                    VerdictChange(now_ms, topic, start, before["verdict"] if before else None, *_figures(after), verdict.reason)
                )
                if verdict.kind.is_final:
                    self._ledger.settle(topic, start)
        self._ledger.books.notes.note_changes(found.changes)
        return found

    def _with_rows_alone(self, topic: str, news: News) -> set[int]:
        """Return the windows in which the rows of sinks may be others now. Nothing was said that their verdict could hang on."""
        stored = self._ledger.books.verdicts
        undecided = stored.with_undecided_sinks(topic) if stored.sinks.is_undecided(topic) else ()
        return news.of_sinks.union(undecided)

    def _tell(self, topic: str, found: _Found) -> None:
        if self._on_change is not None and found.changes:
            self._on_change([one._asdict() for one in found.changes])
        if self._on_sink_change is not None and found.of_sinks:
            self._on_sink_change(found.of_sinks)
        turned = Counter((one.from_verdict or "new", one.to_verdict) for one in found.changes)
        for (before, after), count in turned.items():
            example = next(one for one in found.changes if (one.from_verdict or "new", one.to_verdict) == (before, after))
            log.info(
                "verdict_changed", topic=topic, windows=count, before=before, after=after,
                window_start_ms=example.window_start_ms, missing_count=example.missing, doubled_count=example.doubled,
                altered_count=example.altered, reason=example.reason,
            )  # fmt: skip
        for sink in dict.fromkeys(one["sink"] for one in found.of_sinks):
            mine = [one for one in found.of_sinks if one["sink"] == sink]
            log.info(
                "sink_row_changed", topic=topic, sink=sink, windows=len(mine), after=mine[-1]["to_verdict"],
                window_start_ms=mine[-1]["window_start_ms"], reason=mine[-1]["reason"],
            )  # fmt: skip

    # -- days ----------------------------------------------------------------------------------------------------------

    def roll_up(self) -> None:
        """Add windows that were decided `keep_windows_days` ago to their days; forget days after `keep_days`."""
        now_ms = self._clock.monotonic_ms()
        if self._rolled_up_ms is not None and now_ms - self._rolled_up_ms < ROLL_UP_EVERY_MS:
            return
        while not self._stop.is_set():
            with self._lock:
                if self._ledger.roll_up(ROLL_UP_AT_ONCE) < ROLL_UP_AT_ONCE:
                    break
        self._rolled_up_ms = now_ms

    def forget(self) -> None:
        """Once an hour: add windows that nobody decides to their days, then forget runs by which nothing is judged any more."""
        now_ms = self._clock.monotonic_ms()
        if self._forgot_ms is not None and now_ms - self._forgot_ms < FORGET_EVERY_MS:
            return
        while not self._stop.is_set():
            with self._lock:
                if self._ledger.roll_up_undecided(ROLL_UP_AT_ONCE) < ROLL_UP_AT_ONCE:
                    break
        ended = self._ledger.ended_runs()
        for at in range(0, len(ended), RUNS_AT_ONCE):
            if self._stop.is_set():
                return
            with self._lock:
                self._ledger.forget_runs(ended[at : at + RUNS_AT_ONCE])
        self._forgot_ms = now_ms


def _figures(window: Window) -> tuple[str, int, int, int, str | None]:
    return window["verdict"], window["missing"], window["doubled"], window["altered"], window["first_bad_tier"]


def _late(before: Window | None, after: Window) -> int:
    """Return how many records came to the live log after the window's verdict was final."""
    if before is None:
        return 0
    late: int = before["late"]
    if before["verdict"] not in UNDECIDED or late:
        late += max(0, (after["tiers"].get(LIVE) or 0) - (before["tiers"].get(LIVE) or 0))
    return late
