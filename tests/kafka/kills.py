"""Rounds of `kill -9` of anything while a mirror copies (`python -m tests.kafka.kills`); the oracle compares ids with those sent.

A round sends records to the source, kills the mirror, the source or the destination (one or two of them) at random moments, and
starts them again. After all rounds each partition's copy must hold each acknowledged record once, in order. Without `--pair` the
rounds are shared out among ours to ours, ours to Kafka, and Kafka to ours, one after another.
"""

import argparse
import math
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tests.kafka.copying import Cluster, Copying, make_topic, producer, read_all
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess, lacking
from tests.support.zookeeper import ZooKeeperProcess

PAIRS = ("ours-ours", "ours-kafka", "kafka-kafka", "kafka-ours")
SHARED = ("ours-ours", "ours-kafka", "kafka-ours")
PARTITIONS = 3
RECORDS = 600
"""Of one partition in one round."""


class Sender:
    """Sends numbered records and knows which were acknowledged, in the order of their acknowledgement by partition."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._sender: Producer = producer(
            cluster, **{"enable.idempotence": True, "acks": "all", "message.timeout.ms": 120_000, "batch.num.messages": 50}
        )
        self._next = 0
        self.failed = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            for partition in range(PARTITIONS):
                value = b"%08d-%d" % (self._next, partition)
                self._sender.produce(
                    self._topic, value.ljust(200, b"."), partition=partition, timestamp=1_431_857_103_000, callback=self._ended
                )
            self._next += 1
        self._sender.poll(0)

    def flush(self) -> None:
        assert self._sender.flush(120) == 0, "records without an end"
        assert not self.failed, f"{self.failed} records were refused by the source"

    def _ended(self, error: KafkaError | None, message: Message) -> None:
        self.failed += error is not None


def rounds(
    folder: Path,
    source: Cluster,
    destination: Cluster,
    count: int,
    seed: int,
    *,
    may_kill_clusters: bool = True,
    deadline: float = math.inf,
) -> dict[str, int]:
    """Carry out the rounds and compare; return how many there were, and how often each part was killed. Raises AssertionError.

    No round begins after `deadline` (monotonic).
    """
    choice = random.Random(seed)
    topic = f"kills_{uuid.uuid4().hex[:8]}"
    make_topic(source, topic, PARTITIONS)
    killed = {"rounds": 0, "mirror": 0, "source": 0, "destination": 0}
    sender = Sender(source, topic)
    words = ["--topics", topic, "--transaction-timeout-ms", "10000"]
    if isinstance(source, BrokerProcess) and isinstance(destination, BrokerProcess):
        words += ["--destination-zookeeper", destination.zookeeper]
    with Copying(folder, source, destination, name=topic, words=words) as copying:
        copying.launch()
        for _ in range(count):
            if time.monotonic() > deadline:
                break
            killed["rounds"] += 1
            sender.send(RECORDS)
            for _ in range(choice.choice((1, 1, 1, 2))):
                time.sleep(choice.uniform(0.0, 1.5))  # the moment is what is searched
                what = choice.choice(("mirror", "mirror", "source", "destination") if may_kill_clusters else ("mirror",))
                killed[what] += 1
                if what == "mirror":
                    copying.kill()
                    copying.launch()
                else:
                    broker = source if what == "source" else destination
                    broker.kill()
                    broker.launch()
                    broker.await_ready()
        sender.flush()
        names = [(topic, partition) for partition in range(PARTITIONS)]
        expected = read_all(source.address, names)
        for name, values in expected.items():
            numbers = [int(value.split(b"-")[0]) for value in values]
            assert numbers == list(range(killed["rounds"] * RECORDS)), f"{name}: the source itself has not what was sent"
        copying.await_copied(expected, within_ms=180_000)
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description="kill -9 of mirror, source and destination while records are copied")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--pair", choices=PAIRS, help="these alone; without it the rounds are shared out among three pairs")
    parser.add_argument("--within-minutes", type=float, default=math.inf, help="begin no round later; says how many there were")
    arguments = parser.parse_args()
    pairs = SHARED if arguments.pair is None else (arguments.pair,)
    missing = lacking()
    if missing is not None and any("kafka" in pair for pair in pairs):
        print(f"left out: {missing}", file=sys.stderr)
        return 1
    total, left, began = 0, arguments.rounds, time.monotonic()
    for number, pair in enumerate(pairs):
        share = -(-left // (len(pairs) - number))
        deadline = began + 60 * arguments.within_minutes * (number + 1) / len(pairs)
        print(f"{pair}, {share} rounds, seed {arguments.seed}", flush=True)
        killed = one_pair(pair, share, arguments.seed, deadline)
        print(f"{pair}: nothing missing, nothing twice, order kept; {killed}", flush=True)
        total, left = total + killed["rounds"], left - share
    print(f"{total} of {arguments.rounds} rounds, seed {arguments.seed}, {(time.monotonic() - began) / 60:.1f} minutes")
    return 0


def one_pair(pair: str, count: int, seed: int, deadline: float = math.inf) -> dict[str, int]:
    """Carry out rounds with clusters of their own. Raises AssertionError."""
    with tempfile.TemporaryDirectory(prefix="headrace-kills-") as name, ZooKeeperProcess(Path(name) / "zookeeper") as zookeeper:
        ends: list[Cluster] = []
        try:
            for number, kind in enumerate(pair.split("-")):
                path = Path(name) / f"{number}-{kind}"
                chroot = f"{zookeeper.address}/kills-{number}"
                ends.append(KafkaProcess(path) if kind == "kafka" else BrokerProcess(path, chroot))
                ends[-1].start()
            return rounds(Path(name), ends[0], ends[1], count, seed, deadline=deadline)
        finally:
            for one in ends:
                one.kill()


if __name__ == "__main__":
    sys.exit(main())
