"""In every history a sink that tells what the consumer group tells has a row with the group's true numbers, counted record by
record, and so has a group that nobody named; one on the offline cluster that tells what the warehouse tells has the warehouse's.
The verdict is as if they had told nothing.
"""

import os
from collections import Counter
from dataclasses import replace

from headrace.audit.model.facts import Verdict
from headrace.audit.model.messages import RangeReport
from headrace.audit.model.tiers import WAREHOUSE
from tests.search.audit.checks import LATER_MS
from tests.support.audit_world.hearing import GROUP, hear
from tests.support.audit_world.truth import truth_of
from tests.support.audit_world.world import World

SINKS = {GROUP: ("sink:rates", "consumer:nobody-named-it"), WAREHOUSE: ("sink:rates@offline",)}
"""Tier → the readers beside the verdict that tell the same."""
READERS = [(tier, reader) for tier, readers in SINKS.items() for reader in readers]
HISTORIES = 100 if os.environ.get("HEADRACE_TEST_FAST") else 400


def alone(verdict: Verdict | None) -> Verdict | None:
    """Return the verdict but for what belongs to sinks; what came again counts for the window, whoever read it."""
    return None if verdict is None else replace(verdict, sinks={}, redelivered=0, waits={})


def test_rows_of_sinks_are_true_and_no_verdict_hangs_on_them() -> None:
    judged: Counter[str] = Counter()
    found_bad: Counter[str] = Counter()
    for seed in range(HISTORIES):
        world = World(seed).run()
        before = {(window, at): world.judge(window, later_ms=at) for window in world.windows for at in (0, LATER_MS)}
        for report in list(world.topic):
            for reader in SINKS.get(report.tier, ()) if isinstance(report, RangeReport) else ():
                hear(world.books, replace(report, tier=reader), world.now_ms, world.journal)
        for (window, later_ms), kept in before.items():
            verdict = world.judge(window, later_ms=later_ms)
            assert alone(verdict) == alone(kept), f"seed {seed}, window {window}"
            truth = truth_of(world, window)
            for tier, sink in READERS:
                row = None if verdict is None else verdict.sinks.get(sink)
                if row is None or not row.kind.is_final or truth.is_hidden:
                    continue
                said = (row.missing, row.doubled, row.altered)
                assert said == (truth.missing[tier], truth.doubled[tier], truth.altered[tier]), f"seed {seed}, {window}, {sink}"
                judged[sink] += 1
                found_bad[sink] += any(said)
    for _, sink in READERS:
        assert judged[sink] > HISTORIES
        assert found_bad[sink] > HISTORIES // 20
