"""Searches for a run in which whole brokers break a promise: `python -m tests.simulate.whole`.

Continues where the last search ended, up to `--until`. `--seed N` plays one run, and shrinks it when it fails.
`--seconds N` plays seeds from `--from` on for about so long. `--safeguards N` switches safeguards off, one after the other, and
tells which of N seeds is the first to notice.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

from .plans import drawn, told
from .play import Outcome, play, shrunk
from .safeguards import SAFEGUARDS, first_noticed

STATE = Path(os.environ.get("HEADRACE_HOME", ".headrace")) / "simulate-whole.json"
AT_ONCE = 20
"""Seeds between two notes of how far the search is."""


def outcome_of(seed: int) -> tuple[int, Outcome]:
    """Return the outcome of a seed's run, without its transcript."""
    return seed, play(drawn(seed))._replace(transcript=[])


def search(start: int, until: int, workers: int, seconds: float | None = None) -> int:
    """Play the runs [start, until), or for `seconds`. Return how many were wrong; each is printed."""
    began, played, failed = time.monotonic(), 0, 0
    takeovers = acknowledged = commits = idle = 0
    seeds = range(start, until)
    with Pool(workers, maxtasksperchild=AT_ONCE) as pool:
        # A `kill` ends the workers too: an exception leaves the block, a signal's default does not.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        for seed, outcome in pool.imap(outcome_of, seeds):
            played += 1
            if outcome.why is not None:
                failed += 1
                print(
                    f"run {seed} fails; play it with: make simulate-whole SEED={seed}\n  {outcome.why.splitlines()[0]}",
                    flush=True,
                )
            takeovers, acknowledged = takeovers + outcome.takeovers, acknowledged + outcome.acknowledged
            commits += outcome.commits
            idle += outcome.takeovers == 0 or outcome.acknowledged == 0
            if played % AT_ONCE == 0:
                STATE.parent.mkdir(parents=True, exist_ok=True)
                STATE.write_text(json.dumps({"next_seed": seed + 1}))
                rate = played / (time.monotonic() - began)
                print(f"\r{seed + 1} played, {rate:.2f}/s, {failed} wrong  ", end="", file=sys.stderr)
            if seconds is not None and time.monotonic() - began > seconds:
                break
    took = time.monotonic() - began
    print(
        f"{played} runs in {took:.0f} s (seeds {start} to {start + played}), {failed} wrong; {takeovers} takeovers, "
        f"{acknowledged} acknowledged records, {commits} commits; {idle} runs without a takeover or without a record",
        flush=True,
    )
    return failed


def look_at_safeguards(most_seeds: int) -> int:
    """Return how many are not noticed. Seeds are those of `drawn` with the kinds of faults that the safeguard is about."""
    unnoticed = 0
    for name in SAFEGUARDS:
        found = first_noticed(name, most_seeds)
        unnoticed += found is None
        told = f"not in {most_seeds} seeds" if found is None else f"seed {found[0]}, {found[1]}"
        print(f"without {name!r}: {told}", flush=True)
    return unnoticed


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when every run is right, 1 when one is not."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulate.whole", description=__doc__, epilog="example: python -m tests.simulate.whole --seed 42"
    )
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--from", dest="start", type=int, help="the first seed; without it: where the last search ended")
    parser.add_argument("--until", type=int, default=1_000_000, help="the seed before which to stop (default: 1000000)")
    parser.add_argument("--seconds", type=float, help="stop after about so long")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--safeguards", type=int, metavar="N", help="switch safeguards off, and play at most N seeds for each")
    parser.add_argument("--transcript", type=Path, help="write the transcript of --seed to this file")
    words = parser.parse_args(argv)
    if words.safeguards is not None:
        return 1 if look_at_safeguards(words.safeguards) else 0
    if words.seed is None:
        start = words.start
        if start is None:
            start = json.loads(STATE.read_text())["next_seed"] if STATE.exists() else 0
        return 1 if search(start, words.until, words.workers, words.seconds) else 0
    plan = drawn(words.seed)
    outcome = play(plan)
    if words.transcript is not None:
        words.transcript.write_text("\n".join(outcome.transcript) + "\n")
    if outcome.why is None:
        print(f"run {words.seed} is right: {outcome.takeovers} takeovers, {outcome.acknowledged} acknowledged records")
        return 0
    print(f"run {words.seed} fails:\n{outcome.why}\n{dict(plan.config)}\n{told(plan)}")
    small = shrunk(plan, lambda one: play(one).kind == outcome.kind)
    print(f"shrunk to {len(small.faults)} faults:\n{told(small)}\n{play(small).why}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
