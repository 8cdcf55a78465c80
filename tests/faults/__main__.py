"""Plays rounds of faults on three brokers: `python -m tests.faults --rounds 50 --seed 7`. A finding names its round: the same
seed with `--from-round` plays it again, on a new cluster.
"""

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from . import java_client
from .cluster import Cluster
from .kafka_cluster import KafkaCluster
from .rounds import play


def main() -> int:
    """Return 0 when nothing is wrong, 1 when something is."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, epilog="example: make faults ROUNDS=20 SEED=7 FROM=12"
    )
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--from-round", type=int, default=1, help="the first round to play, counted from 1")
    parser.add_argument("--engine", choices=("headrace", "kafka"), default="headrace")
    words = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it tells each lost connection to a ZooKeeper that a round has killed
    lacking = java_client.lacking()
    print(f"seed {words.seed}" + (f"; no Java producer: {lacking}" if lacking else ""), flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        history, wrong = play(
            Path(folder),
            seed=words.seed,
            rounds=words.rounds,
            first=words.from_round,
            tell=lambda line: print(line, flush=True),
            least=10 * words.rounds,
            has_java=lacking is None,
            is_wide=words.engine == "headrace",
            make=KafkaCluster if words.engine == "kafka" else Cluster,
        )
    print(f"{len(history.acknowledged)} acknowledged, {len(history.unknown)} not known, {len(wrong)} faults")
    for fault in wrong:
        print(fault)
    if wrong:
        print(f"again: python -m tests.faults --seed {words.seed} --from-round <the round that is named>")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
