"""Plays histories of a table: `python -m tests.search.tables --seed N` one, `--until N` the first N, with the rate."""

import argparse
import sys
import time
from collections.abc import Sequence

from .checks import first_failure


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when every history is told rightly, 1 when one is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.search.tables", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--until", type=int, default=1_000, help="the seed before which to stop (default: 1000)")
    words = parser.parse_args(argv)
    seeds = range(words.until) if words.seed is None else range(words.seed, words.seed + 1)
    began = time.process_time()
    failure = first_failure(seeds)
    if failure is not None:
        print(f"the smallest failing history is {failure[0]}; play it with: python -m tests.search.tables --seed {failure[0]}")
        print(failure[1])
        return 1
    spent = time.process_time() - began
    print(f"{len(seeds)} histories right, {len(seeds) / spent:.0f} a second of processor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
