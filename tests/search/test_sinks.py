"""In every history a sink that tells what the consumer group tells has a row with the group's true numbers, counted record by
record, and the verdict is as if it had told nothing.
"""

import os
from dataclasses import replace

from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import RangeReport
from tests.search.audit.checks import LATER_MS
from tests.support.audit_world.truth import truth_of
from tests.support.audit_world.world import GROUP, World, hear

SINK = "sink:rates"
HISTORIES = 100 if os.environ.get("HEADRACE_TEST_FAST") else 400


def alone(verdict: Verdict | None) -> Verdict | None:
    """Return the verdict but for what belongs to sinks; what came again counts for the window, whoever read it."""
    return None if verdict is None else replace(verdict, sinks={}, redelivered=0)


def test_rows_of_sinks_are_true_and_no_verdict_hangs_on_them() -> None:
    judged = found_bad = 0
    for seed in range(HISTORIES):
        world = World(seed).run()
        before = {(window, at): world.judge(window, later_ms=at) for window in world.windows for at in (0, LATER_MS)}
        for report in list(world.topic):
            if isinstance(report, RangeReport) and report.tier == GROUP:
                hear(world.books, replace(report, tier=SINK), world.now_ms, world.journal)
        for (window, later_ms), kept in before.items():
            verdict = world.judge(window, later_ms=later_ms)
            assert alone(verdict) == alone(kept), f"seed {seed}, window {window}"
            row = None if verdict is None else verdict.sinks.get(SINK)
            truth = truth_of(world, window)
            if row is None or not row.kind.is_final or truth.is_hidden:
                continue
            said = (row.missing, row.doubled, row.altered)
            assert said == (truth.missing[GROUP], truth.doubled[GROUP], truth.altered[GROUP]), f"seed {seed}, window {window}"
            judged += 1
            found_bad += any(said)
    assert judged > HISTORIES
    assert found_bad > HISTORIES // 20
