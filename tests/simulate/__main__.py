"""Searches for a run in which replication breaks a promise: `python -m tests.simulate`.

Goes on where the last search ended, in ranges of seeds, up to `--until`; `--seed N` plays one run, and shrinks it when it fails.
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

from .actions import drawn, failure_of, play, shrunk, told

RANGE = 250
STATE = Path(os.environ.get("HEADRACE_HOME", ".headrace")) / "simulate.json"
Counts = tuple[int, int]
"""Acknowledged requests and takeovers."""


def first_failure(seeds: range) -> tuple[int, str] | Counts:
    """Return the lowest seed whose run fails, with the reason; when all are right, what happened in them."""
    acknowledgements = takeovers = 0
    for seed in seeds:
        try:
            checks = play(drawn(seed)).checks
        except Exception as error:
            return seed, f"{type(error).__name__}: {error}"
        acknowledgements += checks.acknowledgements
        takeovers += checks.takeovers
    return acknowledgements, takeovers


def search(start: int, until: int, workers: int) -> tuple[int, str] | None:
    """Play the runs [start, until). Return the lowest failing seed and the reason; progress goes to the state file."""
    began, passed, acknowledgements, takeovers = time.monotonic(), 0, 0, 0
    ranges = [range(at, min(at + RANGE, until)) for at in range(start, until, RANGE)]
    with Pool(workers) as pool:
        # A `kill` ends the workers too: an exception leaves the block, a signal's default does not.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        for seeds, outcome in zip(ranges, pool.imap(first_failure, ranges), strict=True):
            first, second = outcome
            if isinstance(second, str):
                return first, second
            passed, acknowledgements, takeovers = passed + len(seeds), acknowledgements + first, takeovers + second
            rate = passed / (time.monotonic() - began)
            STATE.parent.mkdir(parents=True, exist_ok=True)
            STATE.write_text(json.dumps({"next_seed": seeds.stop}))
            left_s = (until - seeds.stop) / rate
            print(f"\r{seeds.stop} runs right, {rate:.0f}/s, {left_s / 60:.0f} min to {until}  ", end="", file=sys.stderr)
    print(
        f"\n{passed} runs in {time.monotonic() - began:.0f} s (seeds {start} to {until}): nothing broken; "
        f"{acknowledgements} acknowledgements, {takeovers} takeovers"
    )
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when every run is right, 1 when one is not."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulate", description=__doc__, epilog="example: python -m tests.simulate --seed 42"
    )
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--from", dest="start", type=int, help="the first seed; without it: where the last search ended")
    parser.add_argument("--until", type=int, default=1_000_000, help="the seed before which to stop (default: 1000000)")
    parser.add_argument("--workers", type=int, default=1)
    words = parser.parse_args(argv)
    if words.seed is None:
        start = words.start
        if start is None:
            start = json.loads(STATE.read_text())["next_seed"] if STATE.exists() else 0
        failure = search(start, words.until, words.workers)
        if failure is None:
            return 0
        words.seed = failure[0]
    run = drawn(words.seed)
    why = failure_of(run)
    if why is None:
        print(f"run {words.seed} is right: {len(run.actions)} actions")
        return 0
    small = shrunk(run, lambda one: failure_of(one) is not None)
    print(f"\nrun {words.seed} fails; play it with: python -m tests.simulate --seed {words.seed}\n{why}")
    print(f"shrunk to {len(small.actions)} actions, acks_on_disk={small.acks_on_disk}:\n{told(small.actions)}")
    print(failure_of(small))
    return 1


if __name__ == "__main__":
    sys.exit(main())
