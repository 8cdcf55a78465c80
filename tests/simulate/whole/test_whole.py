"""Whole brokers, run after run: nothing breaks, much happens, and a seed says everything."""

import os
import subprocess
import sys
import time
from pathlib import Path

from .plans import Fault, Plan, drawn
from .play import play, shrunk

START = int(os.environ.get("HEADRACE_SIMULATE_FROM") or 0)
MOST_SEEDS, LEAST_SEEDS, BUDGET_S = 20, 2, 20.0
"""Runs are played until the time is over. So a slow machine plays fewer, and is late by one run at most."""


def test_nothing_breaks_in_whole_brokers() -> None:
    began, played = time.monotonic(), 0
    takeovers = acknowledged = commits = 0
    for seed in range(START, START + MOST_SEEDS):
        if played >= LEAST_SEEDS and time.monotonic() - began > BUDGET_S:
            break
        outcome = play(drawn(seed))
        assert outcome.why is None, f"make simulate-whole SEED={seed}\n{outcome.why}"
        played += 1
        takeovers, acknowledged = takeovers + outcome.takeovers, acknowledged + outcome.acknowledged
        commits += outcome.commits
    print(f"seeds {START} to {START + played}: {takeovers} takeovers, {acknowledged} acknowledged records, {commits} commits")
    assert takeovers > 0, "runs in which no leader changes show nothing"
    assert acknowledged > 100 * played
    assert commits > 10 * played


def test_a_seed_gives_the_same_transcript_to_the_byte(tmp_path: Path) -> None:
    """In processes whose strings have other hashes, and behind another run. The seed has moves, damage, questions, and faults
    around swaps.
    """
    told = []
    for number in ("1", "2"):
        transcript = tmp_path / number
        words = [sys.executable, "-m", "tests.simulate.whole", "--seed", "293", "--transcript", str(transcript)]
        subprocess.run(words, env={**os.environ, "PYTHONHASHSEED": number}, check=True, timeout=1_200, capture_output=True)
        told.append(transcript.read_bytes())
    play(drawn(9))
    here = play(drawn(293)).transcript
    assert told[0] == told[1] == ("\n".join(here) + "\n").encode()


def test_a_failing_run_is_shrunk_to_the_faults_that_it_needs() -> None:
    padding = tuple(Fault("slow network", 100 * number, 0, 5) for number in range(10))
    plan = Plan(0, (), (), (*padding[:5], Fault("kill", 450, 1, 0), *padding[5:], Fault("pause", 2_000, 2, 7)))

    def fails(one: Plan) -> bool:
        return {"kill", "pause"} <= {each.name for each in one.faults}

    assert [each.name for each in shrunk(plan, fails).faults] == ["kill", "pause"]
