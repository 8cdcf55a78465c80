"""Application: whether every run of every producer has said all that it will say of a window. Pure.

A run has let go of a window if it closed, moved past it or holds it no more. One that died may be retired by an operator: then
its last word stands for its seal, and the window is ACCEPTED at best.
"""

from collections.abc import Iterator
from dataclasses import replace

from ..case import Case, HopFinding, held_up, held_up_by, summed
from ..facts import WindowFacts
from ..runs import Run, has_lost_reports
from ..tiers import PRODUCER, TierRule
from ..waits import Silence, Word, earliest

PRESUMED_DEAD_MS = 3_600_000
"""After so long a silence, windows that begin later do not wait for a run that never says what it holds: they are ACCEPTED."""


def check_producers(case: Case, rule: TierRule) -> HopFinding:
    """Return who has not let go of the window yet, who is silent, and whose last word an operator has accepted."""
    if not case.topic.has_producers:
        return held_up(
            case, PRODUCER, PRODUCER, case.seen_ms(), rule.deadline_ms, "no producer of this topic has announced itself"
        )
    found = summed(PRODUCER, _of_runs(case, rule.deadline_ms))
    return replace(found, is_settled=not found.waiting and not found.silent)


def last_report_bound_ms(case: Case) -> int:
    """Return a time at or after `last_report_ms`, which costs the same however many runs there are."""
    return max(case.window.reported_ms, case.topic.run_index.latest_report_ms)


def last_report_ms(case: Case) -> int:
    """Return when the last word of a producer on this window arrived: a report, a seal, or an operator's retirement. Looks at
    each run.
    """
    words = [case.window.reported_ms]
    for run in (*case.topic.runs, *case.topic.ended):
        if concerns(case, run):
            sealed_ms = run.sealed_ms(case.window.window_end_ms)
            words += [sealed_ms or 0, run.retired.heard_ms if run.retired is not None else 0]
    return max(words)


def concerns(case: Case, run: Run) -> bool:
    """Return whether the window waits for the run: a replay announces the times of its events."""
    return run.may_touch(case.window.window_start_ms, case.window.window_end_ms) or _is_touched_by(case, run)


def holds(run: Run, window: WindowFacts) -> bool:
    """Return whether the run may have records of the window that it never told of."""
    return run.hold_of(window.window_start_ms, window.window_end_ms) is not None


def may_lack_reports(case: Case, run: Run) -> bool:
    """Return whether a run that will say nothing more may have had more to say about this window."""
    window = case.window
    if run.holds is not None and not run.gaps:
        return holds(run, window) or run.was_cut_off(window.window_start_ms, window.window_end_ms)
    if not run.gaps and run.sealed_ms(window.window_end_ms) is not None:
        return False
    ended_ms = case.topic.superseded_at.get(run.key, run.heard_ms)
    return _is_touched_by(case, run) or window.window_start_ms <= ended_ms


def _of_runs(case: Case, deadline_ms: int) -> Iterator[HopFinding]:
    for run in case.topic.run_index.runs_concerning(case.window.window_start_ms, case.window.window_end_ms):
        if concerns(case, run) and (found := _of_run(case, run, deadline_ms)) is not None:
            yield found


def _of_run(case: Case, run: Run, deadline_ms: int) -> HopFinding | None:
    """Return what is said of a run that the window waits for; None where there is nothing to say."""
    name = f"{PRODUCER}:{run.key.instance}"
    if run.retired is not None:
        if not may_lack_reports(case, run):
            return None
        words = f"{name}, retired by {run.retired.by}: {run.retired.reason}"
        return HopFinding(tier=PRODUCER, retired={run.key.instance: words + _last_known(case, run)})
    if has_lost_reports(run):
        lost = sum(end - start for start, end in run.gaps)
        return _silent(name, f"{lost} of the reports of {name} never arrived")
    if run.holds is not None:
        return _let_go(case, run, name, deadline_ms)
    if run.sealed_ms(case.window.window_end_ms) is not None:
        return None
    touches = _is_touched_by(case, run)
    succeeded_at = case.topic.superseded_at.get(run.key)
    if succeeded_at is not None:
        # It ended without sealing. What it had stored and not yet reported is no proof of doubles, and what it lost in
        # memory nobody can count.
        if touches or case.window.window_start_ms < succeeded_at:
            return _silent(name, _ended_without_sealing(run, name))
        return None
    found = held_up_by(case, PRODUCER, name, run, deadline_ms, f"{name} has not sealed the window")
    if touches or case.window.window_start_ms <= run.heard_ms:
        return found
    if case.still_ms(run.heard_ms) > PRESUMED_DEAD_MS:
        words = f"{name}, presumed dead: it was silent for an hour and never said what it held"
        return HopFinding(tier=PRODUCER, retired={run.key.instance: words}, waits={Word(run.key): run.heard_ms})
    return replace(found, waits=earliest((found.waits, {Silence(run.key): PRESUMED_DEAD_MS})))


def _let_go(case: Case, run: Run, name: str, deadline_ms: int) -> HopFinding | None:
    """Wait for a run that says what it holds: for a held window until it lets go, for another one while the run is heard."""
    window = case.window
    if holds(run, window):
        if run.key in case.topic.superseded_at:
            return _silent(name, _ended_without_sealing(run, name) + _last_known(case, run))
        return held_up_by(case, PRODUCER, name, run, deadline_ms, f"{name} holds the window", _last_known(case, run))
    if run.was_cut_off(window.window_start_ms, window.window_end_ms):
        words = f"{name} was not heard since the audit topic was away, and may have taken events meanwhile"
        return held_up_by(case, PRODUCER, name, run, deadline_ms, words)
    if run.sealed_ms(window.window_end_ms) is None and case.still_ms(run.heard_ms) <= deadline_ms:
        return held_up_by(case, PRODUCER, name, run, deadline_ms, f"{name} has not sealed the window")
    return None


def _silent(name: str, words: str) -> HopFinding:
    return HopFinding(tier=PRODUCER, is_settled=False, silent={name: words})


def _ended_without_sealing(run: Run, name: str) -> str:
    return f"an earlier run of {name} (epoch {run.key.epoch}) ended without sealing"


def _last_known(case: Case, run: Run) -> str:
    """Return, in words, how many records of the window were under way when the run last said so."""
    hold = run.hold_of(case.window.window_start_ms, case.window.window_end_ms)
    return f"; {hold.under_way} records were under way when it was last heard" if hold is not None and hold.under_way else ""


def _is_touched_by(case: Case, run: Run) -> bool:
    return run.key in case.window.writers
