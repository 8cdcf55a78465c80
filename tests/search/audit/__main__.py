"""Searches for a history in which the audit is wrong: `python -m tests.search.audit`.

Goes on where the last search ended, in ranges of seeds, up to `--until`; `--seed N` plays one history and prints what is wrong.
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

from .checks import check

RANGE = 500
STATE = Path(os.environ.get("HEADRACE_HOME", ".headrace")) / "audit-search.json"


def first_failure(seeds: range) -> tuple[int, str] | None:
    """Return the lowest seed whose history is judged wrongly, with what is wrong; None when all are right."""
    for seed in seeds:
        try:
            check(seed)
        except Exception as error:
            return seed, f"{type(error).__name__}: {error}"
    return None


def search(start: int, until: int, workers: int) -> tuple[int, str] | None:
    """Play the histories [start, until). Return the lowest failing seed and what is wrong; progress goes to the state file."""
    began, passed = time.monotonic(), 0
    ranges = [range(at, min(at + RANGE, until)) for at in range(start, until, RANGE)]
    with Pool(workers) as pool:
        # A `kill` ends the workers too: an exception leaves the block, a signal's default does not.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        for seeds, failure in zip(ranges, pool.imap(first_failure, ranges), strict=True):
            if failure is not None:
                return failure
            passed += len(seeds)
            rate = passed / (time.monotonic() - began)
            STATE.parent.mkdir(parents=True, exist_ok=True)
            STATE.write_text(json.dumps({"next_seed": seeds.stop}))
            left_s = (until - seeds.stop) / rate
            print(f"\r{seeds.stop} histories right, {rate:.0f}/s, {left_s / 60:.0f} min to {until}  ", end="", file=sys.stderr)
    print(f"\n{passed} histories in {time.monotonic() - began:.0f} s: none is judged wrongly (seeds {start} to {until})")
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when every history is judged rightly, 1 when one is not."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.search.audit", description=__doc__, epilog="example: python -m tests.search.audit --seed 42"
    )
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--from", dest="start", type=int, help="the first seed; without it: where the last search ended")
    parser.add_argument("--until", type=int, default=1_000_000, help="the seed before which to stop (default: 1000000)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    words = parser.parse_args(argv)
    if words.seed is not None:
        failure = first_failure(range(words.seed, words.seed + 1))
    else:
        start = words.start
        if start is None:
            start = json.loads(STATE.read_text())["next_seed"] if STATE.exists() else 0
        failure = search(start, words.until, words.workers)
    if failure is None:
        return 0
    seed, what = failure
    print(f"\nthe smallest failing history is {seed}; play it with: python -m tests.search.audit --seed {seed}\n{what}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
