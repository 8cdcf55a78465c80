"""`python -m tests.hostile [--seconds N] [--write FILE]`: each attack for N seconds, then a table; exit 1 where one did harm."""

import argparse
import os
import platform
import re
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.producer import Producer
from tests.hostile.attacks import ATTACKS, Target, ask
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.librdkafka import read_all
from tests.support.registry import RegistryProcess
from tests.support.zookeeper import ZooKeeperProcess

TOPIC = "clicks"
EVENTS_PER_S = 200
LOOK_EVERY_S = 0.05
MOST_MORE_MB = 100
"""The most that a service may grow by an attack."""
MOST_PAUSE_S = 10.0
"""The longest that an honest request may take: the deadline of a request."""
BEGIN, END = "<!-- table: written by `make hostile` -->", "<!-- end of the table -->"


@dataclass(slots=True)
class Row:
    """What one attack came to."""

    attack: str
    service: str
    seen: str
    before_mb: float
    most_mb: float
    descriptors: int
    pause_s: float
    refused: int
    """Honest requests that were not answered 200."""
    first: int = 0
    end: int = 0
    """The events that were acknowledged in its time."""
    lost: int = 0

    @property
    def is_harmless(self) -> bool:
        return (
            self.lost == 0 and self.most_mb - self.before_mb < MOST_MORE_MB and self.pause_s < MOST_PAUSE_S and not self.refused
        )


class Workload(threading.Thread):
    """Sends numbered events, and knows how many of the first are acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.ended = threading.Event()
        self._brokers = bootstrap

    def run(self) -> None:
        producer = Producer(Cluster(self._brokers))
        number = 0
        while not self.ended.wait(0.1):
            for _ in range(EVENTS_PER_S // 10):
                producer.send(TOPIC, str(number).encode(), timestamp_ms=int(time.time() * 1000))
                number += 1
            producer.flush()
            self.acknowledged = number
        producer.close()


class Watch(threading.Thread):
    """Looks at a process and asks it an honest question all the time."""

    def __init__(self, pid: int, target: Target, path: str) -> None:
        super().__init__(daemon=True)
        self.pid, self.target, self.path = pid, target, path
        self.ended = threading.Event()
        self.most_mb = self.pause_s = 0.0
        self.descriptors = self.refused = 0

    def run(self) -> None:
        while not self.ended.wait(LOOK_EVERY_S):
            self.most_mb = max(self.most_mb, resident_mb(self.pid))
            self.descriptors = max(self.descriptors, len(os.listdir(f"/proc/{self.pid}/fd")))
            for path in (self.path, "/healthz"):
                begun = time.monotonic()
                self.refused += ask(self.target, "GET", path)[0] != 200
                self.pause_s = max(self.pause_s, time.monotonic() - begun)


def resident_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1000 if found else 0.0


def campaign(folder: Path, seconds: float) -> list[Row]:
    """Return what each attack came to."""
    rows: list[Row] = []
    with ZooKeeperProcess(folder / "zookeeper") as zookeeper:
        broker = BrokerProcess(folder / "broker", f"127.0.0.1:{zookeeper.port}").start()
        registry = RegistryProcess(folder / "registry", broker.address).start()
        audit = AuditService(folder / "audit", broker.address).start()
        workload = Workload(broker.address)
        try:
            create_topic(Cluster(broker.address), TOPIC, 2)
            workload.start()
            honest = {"registry": (registry, "/subjects"), "audit": (audit, "/api/overview")}
            for name, service, attack in ATTACKS:
                one, path = honest[service]
                target = Target(one.port, broker.address)
                before_mb, first = resident_mb(one.process.pid), workload.acknowledged
                watch = Watch(one.process.pid, target, path)
                watch.start()
                seen = attack(target, time.monotonic() + seconds)
                watch.ended.set()
                watch.join(60)
                row = Row(name, service, seen, before_mb, watch.most_mb, watch.descriptors, watch.pause_s, watch.refused, first)
                row.end = workload.acknowledged
                rows.append(row)
                print(line(row), file=sys.stderr, flush=True)
            workload.ended.set()
            workload.join(60)
            held = [int(message.value()) for message in read_all(broker.address, TOPIC)]
            present = set(held)
            for row in rows:
                row.lost = sum(number not in present for number in range(row.first, row.end))
            if len(held) != len(present) or len(present) < workload.acknowledged:
                raise SystemExit(f"{len(held)} events, {len(present)} of them distinct, {workload.acknowledged} acknowledged")
        finally:
            workload.ended.set()
            audit.process.kill()
            registry.process.kill()
            broker.process.kill()
    return rows


HEAD = "| attack | on | what was done | memory before, most | descriptors | longest answer | refused | events, lost |"


def line(row: Row) -> str:
    return (
        f"| {row.attack} | {row.service} | {row.seen} | {row.before_mb:.0f}, {row.most_mb:.0f} MB | {row.descriptors} | "
        f"{row.pause_s:.2f} s | {row.refused} | {row.end - row.first:,}, {row.lost} |"
    )


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores{f' ({model[1].strip()})' if model else ''}, Python {platform.python_version()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=160, help="of each attack (default %(default)s: half an hour in all)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between its marks in this page")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="headrace-hostile-") as folder:
        rows = campaign(Path(folder), arguments.seconds)
    begin = f"{time.strftime('%d %B %Y')}; {arguments.seconds:g} s an attack; {EVENTS_PER_S} events a second; "
    begin += f"{machine()}; load average before {load:.1f}."
    table = "\n".join([begin, "", HEAD, "|---" * HEAD.count(" | ") + "|---|", *map(line, rows)])
    print(table)
    if arguments.write is not None:
        before, _, rest = arguments.write.read_text().partition(BEGIN)
        arguments.write.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")
    harmed = [row for row in rows if not row.is_harmless]
    for row in harmed:
        print(f"harm: {row.attack} on {row.service}", file=sys.stderr)
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
