"""`python -m bench.replication`: what replication costs, and how long writes pause when brokers die; ours beside Apache Kafka.

Three brokers of each, topics with three replicas, acks=all, one cluster after the other in each round, one client. Prints JSON
for each cluster: percentiles of the pauses of all sampled partitions and rounds, medians of the rest.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..drivers.build import built
from ..drivers.run import drive
from ..harness.proc_meters import cpu_s
from ..peers.way import MESSAGE_BYTES
from . import clusters
from .clusters import Cluster
from .pauses import Pauses, percentile

SAMPLE = 50
"""Partitions that the producer of a fault writes to; a thousand would load the machine more than the brokers do."""
FROZEN_S = 12
SHAPES: Mapping[str, Sequence[str]] = {
    "each a batch": ("batch.num.messages=1", "linger.ms=0"),
    "50 a batch": ("batch.num.messages=50", "linger.ms=1000"),
}
Figures = dict[str, list[float]]


def faults(cluster: Cluster, partitions: int, figures: Figures) -> None:
    """Add the pauses of four faults; each partition of the sample gives one."""
    topic = "faults"
    cluster.make_topic(topic, partitions)

    def pauses(what: str, victim: int, led_by_it: bool, fault: Callable[[], None], heal: Callable[[], None]) -> None:
        cluster.await_preferred(topic, partitions)
        chosen = [index for index, leader in cluster.leaders(topic).items() if (leader == victim) == led_by_it][:SAMPLE]
        with Pauses(cluster.bootstrap, topic, chosen) as seen:
            fault()
            time.sleep(FROZEN_S)
        heal()
        found = list(seen.by_partition.values())
        figures.setdefault(what, []).extend(found)
        tell(f"{cluster.name}: {what}: p50 {percentile(found, 0.5):.0f}, longest {max(found):.0f} ms")

    pauses("kill -9 of a leader, ms", 1, True, lambda: cluster.kill(1), lambda: cluster.restart(1))
    pauses("kill -9 of a follower, ms", 2, False, lambda: cluster.kill(2), lambda: cluster.restart(2))
    pauses("SIGSTOP of a leader, ms", 3, True, lambda: cluster.freeze(3), lambda: cluster.thaw(3))
    pauses("SIGTERM of a leader, ms", 2, True, lambda: cluster.terminate(2), lambda: cluster.restart(2))
    admin = cluster.admin()
    admin.delete_topics([topic])[topic].result(60)


def throughput(cluster: Cluster, count: int, figures: Figures) -> None:
    """Add messages a second, processor time of all brokers and bytes on disk, each for both shapes."""
    for shape, words in SHAPES.items():
        topic = f"produce-{shape.replace(' ', '-')}"
        cluster.make_topic(topic, 1)
        sent = count if shape != "each a batch" else count // 10
        before = stored(cluster, topic)
        settings = [f"bootstrap.servers={cluster.bootstrap}", "acks=all", "queue.buffering.max.messages=1000000", *words]
        driven = drive([str(built("rdkafka_produce")), topic, str(sent), str(MESSAGE_BYTES), *settings], lambda: cluster.pids)
        cluster.await_whole(topic, 1)
        bytes_of = stored(cluster, topic)
        figures.setdefault(f"produce, {shape}, messages a second", []).append(sent / driven.seconds)
        figures.setdefault(f"produce, {shape}, µs of all brokers' processors a message", []).append(
            1e6 * driven.server_cpu_s / sent
        )
        figures.setdefault(f"produce, {shape}, bytes on disk as logs", []).append(
            (sum(bytes_of) - sum(before)) / max(1, max(bytes_of) - max(before))
        )
        admin = cluster.admin()
        admin.delete_topics([topic])[topic].result(60)


def copying(cluster: Cluster, count: int, figures: Figures) -> None:
    """Add how many MB a follower copies in a second of all brokers' processors, after its folder was emptied."""
    topic = "copied"
    cluster.make_topic(topic, 1)
    leader = cluster.leaders(topic)[0]
    settings = [f"bootstrap.servers={cluster.bootstrap}", "acks=all", "queue.buffering.max.messages=1000000"]
    drive(
        [str(built("rdkafka_produce")), topic, str(count), str(MESSAGE_BYTES), *settings, *SHAPES["50 a batch"]],
        lambda: cluster.pids,
    )
    cluster.await_whole(topic, 1)
    one_log_mb = max(stored(cluster, topic)) / 1e6
    victim = next(one for one in clusters.IDS if one != leader)
    cluster.kill(victim)
    server = cluster.servers[victim]
    server.broker.kill()
    for folder in server.data.glob(f"{topic}-0"):
        shutil.rmtree(folder)
    others = [one.broker.pid for broker_id, one in cluster.servers.items() if broker_id != victim]
    before = cpu_s(others)
    server.launch_broker()
    server.wait_until_ready(clusters.WITHIN_S)
    ready_s = cpu_s([server.broker.pid])
    cluster.await_whole(topic, 1)
    used = cpu_s(others) - before + cpu_s([server.broker.pid]) - ready_s
    figures.setdefault("followers copy, MB a processor second", []).append(one_log_mb / used)
    admin = cluster.admin()
    admin.delete_topics([topic])[topic].result(60)


def stored(cluster: Cluster, topic: str) -> list[int]:
    """Return the bytes of the topic's segments at each broker."""
    return [
        sum(file.stat().st_size for folder in server.data.glob(f"{topic}-*") for file in folder.glob("*.log"))
        for server in cluster.servers.values()
    ]


def tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} load {os.getloadavg()[0]:.1f} {line}", file=sys.stderr, flush=True)


def summary(figures: Figures) -> dict[str, float | str]:
    found: dict[str, float | str] = {}
    for what, values in sorted(figures.items()):
        if what.endswith(", ms"):
            found[what] = f"p50 {percentile(values, 0.5):.0f}, p99 {percentile(values, 0.99):.0f}, of {len(values)} pauses"
        else:
            found[what] = round(statistics.median(values), 3)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.replication", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=1_000, help="of the topic whose brokers die")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of 200 bytes, 50 a batch; a tenth, each a batch")
    parser.add_argument("--clusters", default="ours,tuned,default", help="of ours, tuned and default (Kafka's flags)")
    parser.add_argument("--only", default="faults,throughput,copying")
    arguments = parser.parse_args()
    figures: dict[str, Figures] = {}
    for number in range(arguments.rounds):
        for which in arguments.clusters.split(","):
            with tempfile.TemporaryDirectory(prefix="headrace-replication-") as name:
                cluster = clusters.ours(Path(name)) if which == "ours" else clusters.kafka(Path(name), which)
                mine = figures.setdefault(cluster.name, {})
                tell(f"round {number}: {cluster.name}")
                try:
                    cluster.start()
                    if "throughput" in arguments.only:
                        throughput(cluster, arguments.messages, mine)
                    if "copying" in arguments.only:
                        copying(cluster, 5 * arguments.messages, mine)
                    if "faults" in arguments.only:
                        faults(cluster, arguments.partitions, mine)
                finally:
                    cluster.stop()
    print(json.dumps({name: summary(of) for name, of in figures.items()}, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
