"""`python -m tests.hostile.flood [--topics N]`: one client makes N topics; how long do the others wait?

Two brokers with a mirror and an audit between them. An application sends ten numbered records a second all the while. Prints how
long the slowest of them took to be in the copy, before the flood, in it and behind it, and how long the audit's page took.
Exit 1 if the page did not answer; it fails if a record never arrives.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from tests.hostile.attacks import Target, ask
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.processes import Process, eventually
from tests.support.zookeeper import ZooKeeperProcess

TOPIC = "clicks"
EVERY_S = 0.1
SETTLE_S = 10


class Honest(threading.Thread):
    """Sends a record each tenth of a second, and notes when each is seen in the copy."""

    def __init__(self, live: str, offline: str) -> None:
        super().__init__(daemon=True)
        self._live, self._offline = live, offline
        self.sent: dict[int, float] = {}
        self.seen: dict[int, float] = {}
        self.ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def run(self) -> None:
        self._reader.start()
        producer = Producer(Cluster(self._live))
        number = 0
        while not self.ended.wait(EVERY_S):
            self.sent[number] = time.monotonic()
            producer.send(TOPIC, str(number).encode(), partition=0, timestamp_ms=int(time.time() * 1000))
            producer.flush()
            number += 1
        producer.close()

    def _read(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._offline, "group.id": "flood", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        while not self.ended.is_set() or len(self.seen) < len(self.sent):
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                self.seen.setdefault(int(message.value() or b"-1"), time.monotonic())
        consumer.close()

    def slowest_s(self, since: float, until: float) -> float:
        """Return the longest way of a record that was sent in this time. One that is not there yet counts up to now."""
        now = time.monotonic()
        ways = [self.seen.get(number, now) - at for number, at in list(self.sent.items()) if since <= at < until]
        return max(ways, default=0.0)


def flood(folder: Path, topics: int) -> int:
    """Return the exit code."""
    with ZooKeeperProcess(folder / "zookeeper") as zookeeper:
        live, offline = (BrokerProcess(folder / name, f"{zookeeper.address}/{name}").start() for name in ("live", "offline"))
        create_topic(Cluster(live.address), TOPIC, 1)  # the mirror makes the copy
        audit = AuditService(folder / "audit", live.address, offline.address).start()
        words = ["mirror", "run", "--source", live.address, "--destination", offline.address, "--destination-zookeeper"]
        words += [f"{zookeeper.address}/offline", "--audit-bootstrap", live.address, "--no-schemas"]
        mirror = Process([sys.executable, "-m", "headrace.cli.main", *words], folder / "mirror.log").start()
        honest = Honest(live.address, offline.address)
        target, pages, refused = Target(audit.port, live.address), [0.0], 0
        try:
            honest.start()
            eventually(lambda: honest.seen, within_ms=240_000, what="the first record copied")
            begun = time.monotonic()
            time.sleep(SETTLE_S)
            flooded = time.monotonic()
            cluster = Cluster(live.address)
            for number in range(topics):
                create_topic(cluster, f"flood-{number}", 1)
                if number % 50 == 0:
                    asked = time.monotonic()
                    refused += ask(target, "GET", "/api/overview")[0] != 200
                    pages.append(time.monotonic() - asked)
            over = time.monotonic()
            eventually(lambda: copied(offline.address) >= topics, within_ms=900_000, every_ms=2_000, what="all topics copied")
            settled = time.monotonic()
            asked = time.monotonic()
            refused += ask(target, "GET", "/api/overview")[0] != 200
            pages.append(time.monotonic() - asked)
            time.sleep(SETTLE_S)
            honest.ended.set()
            honest.join(30)
            eventually(lambda: len(honest.seen) >= len(honest.sent), within_ms=60_000, what="every record in the copy")
        finally:
            honest.ended.set()
            for process in (mirror, audit.process, offline.process, live.process):
                process.kill()
    print(f"{topics} topics made in {over - flooded:.0f} s; all copied {settled - over:.0f} s later")
    before, during = honest.slowest_s(begun, flooded), honest.slowest_s(flooded, over)
    copying, after = honest.slowest_s(over, settled), honest.slowest_s(settled, time.monotonic())
    print(
        f"slowest record: {before:.1f} s before, {during:.1f} s while topics were made, {copying:.1f} s while they were copied,"
    )
    print(f"{after:.1f} s afterwards; {len(honest.sent)} records, none lost")
    print(f"audit `/`: slowest {max(pages):.2f} s of {len(pages)}, {refused} not answered")
    return 1 if refused else 0


def copied(offline: str) -> int:
    consumer = Consumer({"bootstrap.servers": offline, "group.id": "flood-count"})
    names = consumer.list_topics(timeout=60).topics
    consumer.close()
    return sum(name.startswith("flood-") for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=2_000, help="how many (default %(default)s)")
    with tempfile.TemporaryDirectory(prefix="headrace-flood-") as folder:
        return flood(Path(folder), parser.parse_args().topics)


if __name__ == "__main__":
    sys.exit(main())
