"""Compares our decisions about rights with those of Kafka's `StandardAuthorizer`: `python -m tests.rights`.

Each seed makes a set of rules and 40 questions. A difference is printed with its seed, and ends the search.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.access_worlds import QUESTIONS, world

from .kafka import Oracle

AT_ONCE = 2_500
"""Sets of rules for one Java process: 100,000 questions."""
FROZEN = Path(__file__).parents[1] / "unit" / "broker" / "rights" / "kafkas_answers.txt"


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when there is no difference, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.rights", description=__doc__, epilog="example: python -m tests.rights --seed 42"
    )
    parser.add_argument("--seed", type=int, help="compare this one")
    parser.add_argument("--from", dest="start", type=int, help="the first seed; without it: drawn by the clock, and printed")
    parser.add_argument("--questions", type=int, default=1_000_000, help="how many (default: 1000000)")
    parser.add_argument("--freeze", type=int, metavar="COUNT", help=f"write Kafka's answers for this many seeds to {FROZEN.name}")
    words = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="headrace-rights-") as folder:
        oracle = Oracle(Path(folder))
        if words.freeze is not None:
            worlds = [world(seed) for seed in range(words.freeze)]
            lines = (f"{one.seed} {answers}\n" for one, answers in zip(worlds, oracle.answers(worlds), strict=True))
            FROZEN.write_text("".join(lines))
            return 0
        start = time.time_ns() % 1_000_000_000 if words.start is None else words.start
        seeds = (
            range(start, start + -(-words.questions // QUESTIONS)) if words.seed is None else range(words.seed, words.seed + 1)
        )
        print(f"seeds {seeds.start} to {seeds.stop}")
        asked = decisions = allowed = 0
        for at in range(seeds.start, seeds.stop, AT_ONCE):
            worlds = [world(seed) for seed in range(at, min(at + AT_ONCE, seeds.stop))]
            for difference in oracle.differences(worlds):
                print(f"{difference}\nplay it again with: python -m tests.rights --seed {difference.split()[1].rstrip(':')}")
                return 1
            asked += sum(len(one.questions) for one in worlds)
            answers = "".join(one.answers() for one in worlds)
            decisions, allowed = decisions + len(answers), allowed + answers.count("1")
        print(f"{asked} questions, {decisions} decisions ({allowed} of them yes): no difference to Kafka's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
