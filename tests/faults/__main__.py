"""Plays rounds of faults on three brokers: `python -m tests.faults --rounds 50 --seed 7`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from .rounds import play


def main() -> int:
    """Return 0 when nothing is wrong, 1 when something is."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__, epilog="example: make faults ROUNDS=20")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    words = parser.parse_args()
    print(f"seed {words.seed}")
    with tempfile.TemporaryDirectory() as folder:
        history, wrong = play(
            Path(folder), seed=words.seed, rounds=words.rounds, tell=lambda line: print(line, flush=True), least=10 * words.rounds
        )
    print(f"{len(history.acknowledged)} acknowledged, {len(history.unknown)} not known, {len(wrong)} faults")
    for fault in wrong:
        print(fault)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
