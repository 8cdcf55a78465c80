"""That a verdict stays as it is while there is no news of its topic and none of its waits passes. The judge relies on it."""

from collections.abc import Callable
from dataclasses import replace

from headrace.audit.model.facts import Kind, Verdict
from headrace.audit.model.tier_reports import LogKey, TierReports
from headrace.audit.model.waits import End, Silence, Subject, Word, has_passed
from tests.support.audit_world.hearing import DEADLINE_MS
from tests.support.audit_world.records import TOPIC
from tests.support.audit_world.world import World

STEPS_MS = (0, 700, 9_000, DEADLINE_MS - 1, DEADLINE_MS + 1, 2 * DEADLINE_MS, 2 * DEADLINE_MS + 1, 3 * DEADLINE_MS)
"""How long after the last report the verdicts are compared, at the end."""

HEARD_AGAIN = "all runs were heard"


class Then:
    """The values of what a window may wait for, as the service gives them."""

    def __init__(self, books: TierReports, heard_ms: int) -> None:
        self._books, self._heard_ms = books, heard_ms

    def heard_ms(self) -> int:
        return self._heard_ms

    def value(self, topic: str, subject: Subject) -> int:
        match subject:
            case End(tier, partition):
                log = self._books.log(LogKey(tier, topic, partition))
                return 0 if log is None else log.caught_up_ms or 0
            case Word(key):
                return self._books.runs[key].heard_ms
            case Silence(key):
                return self._heard_ms - self._books.runs[key].heard_ms
            case "heard":
                return self._heard_ms
            case "quarantines":
                return 0


class Still:
    """Compares the verdicts of a world with those that a judge would keep, who judges only when it must."""

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world, self._fail = world, fail
        self._kept: dict[int, Verdict | None] = {}
        self._was_deaf = False
        self.kept_count = 0
        """Verdicts that were not made again."""
        self.made_count = 0

    def look(self, later_ms: int = 0) -> None:
        """Judge all windows, and compare those for which there is no reason to judge them."""
        world = self._world
        now_ms = world.now_ms + later_ms
        heard_ms = now_ms if world.heard_all_ms is None else world.heard_all_ms + later_ms
        is_deaf = now_ms - (world.heard_all_ms or 0) - later_ms > DEADLINE_MS
        has_news = world.books.news.pop(TOPIC, None) is not None or is_deaf != self._was_deaf
        self._was_deaf = is_deaf
        for window in world.windows:
            now = world.judge(window, later_ms=later_ms)
            kept = self._kept.get(window)
            if has_news or (kept is not None and has_passed(kept.waits, TOPIC, Then(world.books, heard_ms))):
                self._kept[window] = now
                self.made_count += 1
                continue
            self.kept_count += 1
            self._compare(window, f"{later_ms} ms later", kept, now)
        if not later_ms:
            self._read_on(heard_ms)
            if not is_deaf:  # else no run can be heard
                self._beat(heard_ms)

    def _read_on(self, heard_ms: int) -> None:
        """Judge as if the logs had been read to their ends now, and nothing was there: no news."""
        logs = [log for of_tier in self._world.books.book(TOPIC).logs.values() for log in of_tier.values()]
        before = [log.caught_up_ms for log in logs]
        for log in logs:
            log.caught_up_ms = max(heard_ms, log.caught_up_ms or 0)  # the audit topic may be away since
        self._try("the logs were read to their ends", heard_ms)
        for log, at_ms in zip(logs, before, strict=True):
            log.caught_up_ms = at_ms

    def _beat(self, heard_ms: int) -> None:
        """Judge as if all runs that may continue had beaten now: no news."""
        runs = [run for run in self._world.books.runs.values() if not run.is_closed and run.retired is None]
        before = [run.heard_ms for run in runs]
        for run in runs:
            run.heard_ms = heard_ms
        self._try(HEARD_AGAIN, heard_ms)
        for run, at_ms in zip(runs, before, strict=True):
            run.heard_ms = at_ms

    def _try(self, what: str, heard_ms: int) -> None:
        for window, kept in self._kept.items():
            if (
                kept is not None
                and not kept.kind.is_final
                and not has_passed(kept.waits, TOPIC, Then(self._world.books, heard_ms))
            ):
                self.kept_count += 1
                now = self._world.judge(window)
                # For whom else an undecided window waits, it need not say: a run that was silent, and is heard again. So it stays
                # UNKNOWN for its own reason, where judged again it would be OPEN for a while.
                may_stay = (Kind.OPEN, Kind.UNKNOWN) if what == HEARD_AGAIN else (Kind.OPEN,)
                is_open = now is not None and now.kind is Kind.OPEN and kept.kind in may_stay
                self._compare(window, what, kept, kept if is_open else now)

    def _compare(self, window: int, when: str, kept: Verdict | None, now: Verdict | None) -> None:
        same = now is kept if now is None or kept is None else _words(now) == _words(kept)
        if not same:
            self._fail(f"window {window}, {when}: another verdict without news\n{kept}\n{now}")


def _words(verdict: Verdict) -> Verdict:
    """Return the verdict but for what it waits for; a decided one waits for nothing, and names no silence."""
    rows = {name: replace(row, waits={}) for name, row in verdict.sinks.items()}
    return replace(verdict, waits={}, sinks=rows)
