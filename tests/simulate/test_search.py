"""Fresh random runs each day, and what makes them worth something: they replay, shrink, and are not empty."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from .actions import Action, Run, drawn, failure_of, play, shrunk
from .logs import ListLog

SEEDS = 150 if os.environ.get("HEADRACE_TEST_FAST") else 1_000
FRESH = 1_000_000 + int(os.environ.get("HEADRACE_SIMULATE_FROM") or time.time() // 86_400) * 10_000
"""`make simulate` plays the first million."""


def test_nothing_breaks_in_fresh_runs() -> None:
    takeovers = acknowledgements = 0
    for seed in range(FRESH, FRESH + SEEDS):
        why = failure_of(drawn(seed))
        assert why is None, f"play it with: python -m tests.simulate --seed {seed}\n{why}"
    for seed in range(FRESH, FRESH + 50):
        checks = play(drawn(seed)).checks
        takeovers += checks.takeovers
        acknowledgements += checks.acknowledgements
    assert takeovers > 50
    assert acknowledgements > 100


def test_a_seed_gives_the_same_run_to_the_byte() -> None:
    def told(seed: int) -> str:
        world = play(drawn(seed))
        logs = [broker.log.records() for broker in world.brokers.values()]
        return repr((world.zookeeper.history, logs, sorted(world.checks.seen.items()), world.now_ms))

    assert [told(seed) for seed in range(25)] == [told(seed) for seed in range(25)]


def test_a_failing_run_is_shrunk_to_what_is_needed() -> None:
    padding = [Action("tick", number, number) for number in range(40)]
    run = Run(False, (*padding[:20], Action("kill", 1, 0), *padding[20:], Action("recreate", 0, 0)))

    def fails(one: Run) -> bool:
        return {"kill", "recreate"} <= {each.name for each in one.actions}

    assert [each.name for each in shrunk(run, fails).actions] == ["kill", "recreate"]


def test_the_search_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.simulate", "--workers", "1", "--until"]
    environment = {**os.environ, "HEADRACE_HOME": str(tmp_path)}
    for until in ("20", "30"):
        done = subprocess.run([*words, until], env=environment, capture_output=True, text=True, check=True, timeout=120)
        assert json.loads((tmp_path / "simulate.json").read_text()) == {"next_seed": int(until)}
    assert "seeds 20 to 30" in done.stdout


def test_the_list_loses_what_was_not_flushed_when_the_power_is_cut() -> None:
    log = ListLog()
    log.append(1, 1)
    log.end_flush(log.begin_flush())
    for value in range(2, 12):
        log.append(value, 1)
    lengths = set()
    for seed in range(20):
        copy = ListLog(end=log.end, flushed=log.flushed, rows=list(log.rows))
        copy.cut_power(random.Random(seed))
        lengths.add(len(copy.rows))
    assert min(lengths) == 1
    assert len(lengths) > 5
