"""`python -m bench.processes`: what a second broker process adds on the same machine (`headrace broker run --processes N`).

Each broker leads one topic of one replica, and a librdkafka producer of its own writes to it; all write at once. Prints JSON for
each number of brokers, medians over interleaved rounds: messages a second, and what a message costs the brokers' and the
producers' processors. Where both together fill the machine, the cost of a message tells what a machine with more cores can do.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from headrace.runtime.status import read_status

from .drivers.build import built
from .drivers.run import Driven, drive
from .harness.child import BenchFault, free_port
from .harness.proc_meters import cpu_s, descendants
from .peers.headrace import Headrace
from .peers.way import MESSAGE_BYTES

SHAPES = {
    "each a batch": (("batch.num.messages=1", "linger.ms=0"), 200_000),
    "50 a batch": (("batch.num.messages=50", "linger.ms=1000"), 3_000_000),
}
"""Settings of the producer, and how many messages each sends."""
Figures = dict[str, list[float]]


class Processes(Headrace):
    """Brokers of one command, with ids from 1 and ports that count up."""

    def __init__(self, folder: Path, count: int) -> None:
        super().__init__(folder, {"broker.id": "1"})
        self.count = count
        while self.http_port in range(self.port - count, self.port + count):
            self.http_port = free_port()

    def command(self) -> Sequence[str]:
        return [*super().command(), "--processes", str(self.count)]

    def wait_until_ready(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        waiting = set(range(1, self.count + 1))
        while waiting:
            for broker_id in list(waiting):
                status = read_status(self._status.with_name(f"status-{broker_id}.json"))
                if status is not None and status["state"] == "ready":
                    waiting.discard(broker_id)
            self.broker.assert_alive()
            if time.monotonic() > deadline:
                raise BenchFault(f"brokers {sorted(waiting)} were not ready in {within_s:.0f} s:\n{self.broker.tail()}")
            time.sleep(0.05)

    @property
    def pids(self) -> Sequence[int]:
        return [*descendants(self.broker.pid), self.zookeeper.pid]


def measure(server: Processes, figures: Figures) -> None:
    """Add the figures of one round."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for shape, (words, count) in SHAPES.items():
        names = [f"{shape.replace(' ', '-')}-{broker_id}" for broker_id in range(1, server.count + 1)]
        topics = [NewTopic(name, 1, replica_assignment=[[at]]) for at, name in enumerate(names, 1)]
        for made in admin.create_topics(topics).values():
            made.result(60)
        settings = [f"bootstrap.servers={server.bootstrap}", "acks=1", "queue.buffering.max.messages=1000000", *words]

        def send(name: str, count: int = count, settings: Sequence[str] = settings) -> Driven:
            command = [str(built("rdkafka_produce")), name, str(count), str(MESSAGE_BYTES), *settings]
            return drive(command, lambda: [])

        before = cpu_s(server.pids)
        with ThreadPoolExecutor(server.count) as pool:
            driven = list(pool.map(send, names))
        sent = count * server.count
        figures.setdefault(f"{shape}: messages a second", []).append(sum(count / one.seconds for one in driven))
        figures.setdefault(f"{shape}: µs of the brokers a message", []).append(1e6 * (cpu_s(server.pids) - before) / sent)
        figures.setdefault(f"{shape}: µs of the producers a message", []).append(
            1e6 * sum(one.client_cpu_s for one in driven) / sent
        )
        for gone in admin.delete_topics(names).values():
            gone.result(60)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.processes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", default="1,2", help="numbers of brokers, each measured once a round")
    arguments = parser.parse_args()
    figures: dict[int, Figures] = {}
    for number in range(arguments.rounds):
        for count in map(int, arguments.brokers.split(",")):
            print(f"load {os.getloadavg()[0]:.1f} round {number}: {count} brokers", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="headrace-processes-") as name:
                server = Processes(Path(name), count)
                try:
                    server.start()
                    measure(server, figures.setdefault(count, {}))
                finally:
                    server.stop()
    medians = {count: {what: round(statistics.median(values), 2) for what, values in of.items()} for count, of in figures.items()}
    print(json.dumps(medians, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
