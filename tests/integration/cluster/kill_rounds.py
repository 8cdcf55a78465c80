"""`python -m tests.integration.cluster.kill_rounds`: loads on a Spark cluster, while all that can die dies, and answers get lost.

A round adds records to some topics and starts a load of all on a cluster of two workers, into an object store with its catalog
behind a proxy that drops, delays and repeats. Executors, their Pythons and whole workers are killed at random; the driver is
killed at a random time, at a step of a commit, at a random request to the catalog, or lives. Then loads without trouble continue
till all is done. An oracle of its own reads the table's files and compares them with what the brokers acknowledged.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka

from headrace.local.supervisor.descendants import descendants
from tests.support.broker import BrokerProcess
from tests.support.processes import Process
from tests.support.registry import RegistryProcess
from tests.support.spark_cluster import SparkCluster, end
from tests.support.spark_stage import CLICK, HOUR_MS, LONG_AGO_MS, Stage, click
from tests.support.zookeeper import ZooKeeperProcess

from .warehouses import POINTS, Catalogued

TOPICS = 4
TRIES = 8
LOAD_MS = 300_000
Row = tuple[Any, ...]


class Bed:
    """Servers, cluster and topics; `acknowledged` is what the brokers took, by topic: (partition, offset, path)."""

    def __init__(self, folder: Path, kind: str, stack: ExitStack) -> None:
        self.folder, self.kind = folder, kind
        self.where = Catalogued(folder, kind, stack)
        self.proxy, self.world, self.s3 = self.where.proxy, self.where.world, self.where.s3
        os.environ.update({"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable})
        self.cluster = stack.enter_context(SparkCluster(folder / "cluster", environment=self.s3.environment()))
        zookeeper = stack.enter_context(ZooKeeperProcess(folder / "zookeeper"))
        address = f"{zookeeper.address}/kills-{uuid.uuid4().hex[:8]}"
        self.broker = stack.enter_context(BrokerProcess(folder / "broker", address))
        self.registry = stack.enter_context(RegistryProcess(folder / "registry", self.broker.address))
        self.stages = [Stage(self.broker, self.registry, self.world.home, self.world.settings) for _ in range(TOPICS)]
        self.acknowledged: dict[str, list[Row]] = {one.topic: [] for one in self.stages}
        self.schema_ids = {}
        for one in self.stages:
            one.create(3)
            self.schema_ids[one.topic] = one.register(CLICK)

    def send(self, chance: random.Random) -> int:
        """Add records to some topics; return how many."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.broker.address, "linger.ms": 5})
        count = 0
        for stage in chance.sample(self.stages, chance.randint(1, TOPICS)):
            mine = self.acknowledged[stage.topic]
            first = len(mine)
            for number in range(first, first + chance.choice((1, 5, 60, 600))):

                def taken(error: Any, message: Any, number: int = number, mine: list[Row] = mine) -> None:
                    assert error is None, error
                    mine.append((message.partition(), message.offset(), f"/{number}"))

                at_ms = LONG_AGO_MS + number * HOUR_MS // 400
                value = click(self.schema_ids[stage.topic], number)
                producer.produce(stage.topic, value, partition=chance.randrange(3), timestamp=at_ms, on_delivery=taken)
                producer.poll(0)
                count += 1
        assert producer.flush(60) == 0
        return count

    def driver(self) -> Process:
        words = [sys.executable, "-m", "headrace.spark.all_topics.command", "--master", self.cluster.url]
        words += [word for one in self.stages for word in ("--topic", one.topic)]
        words += ["--bootstrap", self.broker.address, "--quarantine", self.broker.address, "--registry", self.registry.url]
        log = self.folder / f"driver-{uuid.uuid4().hex[:6]}.log"
        return Process(words, log, {"HEADRACE_HOME": str(self.world.home)}).start()

    def rows(self, topic: str) -> list[Row]:
        return self.where.rows(topic, "_topic_partition, _offset, path")


def play(bed: Bed, seed: int) -> str:
    """Play a round; return what happened in it. Raises AssertionError."""
    chance = random.Random(seed)
    sent = bed.send(chance)
    failpoints = bed.where.failpoints
    is_unruly = chance.random() < 0.7
    bed.proxy.chances.trouble(seed, of_all=0.01 if is_unruly else 0, of_commits=0.25 if is_unruly else 0)
    victims = [chance.choice(("executor", "executor", "python", "worker")) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    fate = chance.choice(("lives", "lives", "at a time", "at a step", "at a request"))
    driver = bed.driver()
    is_time = driver_end(bed, driver, fate, failpoints, chance)
    due = time.monotonic() + chance.uniform(0, 3)
    end_by = time.monotonic() + LOAD_MS / 1000
    said = [fate]
    while driver.is_running() and not is_time():
        assert time.monotonic() < end_by, driver.stacks()
        if victims and time.monotonic() > due and kill_one(bed.cluster, victims[0], chance):
            said.append(victims.pop(0))
            due = time.monotonic() + chance.uniform(0, 3)
        time.sleep(0.02)
    kill_driver(driver)
    bed.proxy.chances.calm()
    for armed in failpoints.glob("*"):
        armed.unlink()
    bed.cluster.revive()
    before = sum(len(bed.rows(one.topic)) for one in bed.stages)
    tries = load_till_done(bed)
    for one in bed.stages:
        rows, log = bed.rows(one.topic), sorted(bed.acknowledged[one.topic])
        lost, doubled = Counter(log) - Counter(rows), Counter(rows) - Counter(log)
        assert not lost, f"{one.topic}: {sum(lost.values())} lost, as {list(lost)[:3]}"
        assert not doubled, f"{one.topic}: {sum(doubled.values())} doubled, as {list(doubled)[:3]}"
    after = sum(len(log) for log in bed.acknowledged.values())
    state = "all" if before == after else "nothing" if before == after - sent else "some"
    return f"driver {', '.join(said)}: {state} committed before, {tries} loads more, {after} rows"


def driver_end(bed: Bed, driver: Process, fate: str, failpoints: Path, chance: random.Random) -> Any:
    """Return what says that the driver's time has come."""
    if fate == "at a time":
        due = time.monotonic() + chance.uniform(1, 30)
        return lambda: time.monotonic() > due
    if fate == "at a step":
        armed = failpoints / chance.choice(POINTS)
        armed.touch()
        return armed.with_name(f"{armed.name}.reached").exists
    if fate == "at a request":
        number = chance.randint(1, 150 if bed.kind == "postgresql" else 60)

        def at(seen: int) -> None:
            if seen == number:
                kill_driver(driver)

        bed.proxy.chances.at = at
    return lambda: False


def kill_driver(driver: Process) -> None:
    """`kill -9` the load and its JVM; the cluster's executors are no children of it."""
    if driver.is_running():
        for pid in (driver.pid, *descendants(driver.pid)):
            end(pid)
    driver.kill()


def kill_one(cluster: SparkCluster, victim: str, chance: random.Random) -> bool:
    """Kill one; return False while there is none."""
    running = cluster.executors()
    if victim == "python":
        running = cluster.pythons()
    if not running:
        return False
    if victim == "worker":
        cluster.kill_worker(chance.randrange(len(cluster.workers)))
        cluster.revive()
    else:
        end(chance.choice(running))
    return True


def load_till_done(bed: Bed) -> int:
    """Load without trouble until a load ends well; return how many it took."""
    for number in range(1, TRIES + 1):
        driver = bed.driver()
        try:
            if driver.wait(LOAD_MS) == 0:
                return number
        finally:
            kill_driver(driver)
    raise AssertionError(f"{TRIES} loads without trouble do not end well:\n{driver.output()[-3000:]}")


def assert_nothing_is_left_over(bed: Bed) -> None:
    """A last load of each topic sweeps: then the store has the files that the table names, and no other."""
    chance = random.Random(0)
    while not all(bed.acknowledged.values()):
        bed.send(chance)
    producer = confluent_kafka.Producer({"bootstrap.servers": bed.broker.address})
    for one in bed.stages:
        producer.produce(one.topic, click(bed.schema_ids[one.topic], 0), partition=0, timestamp=LONG_AGO_MS)
    assert producer.flush(60) == 0
    load_till_done(bed)
    for one in bed.stages:
        left = bed.where.left_over(one.topic)
        assert not left, f"{one.topic}: {sorted(left)[:3]}"


@contextmanager
def bed_of(kind: str) -> Iterator[Bed]:
    with tempfile.TemporaryDirectory(prefix="headrace-cluster-kills-") as name, ExitStack() as stack:
        yield Bed(Path(name), kind, stack)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.cluster.kill_rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--catalog", choices=("postgresql", "rest"), default="postgresql")
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left running
    fates: Counter[str] = Counter()
    with bed_of(words.catalog) as bed:
        for number in range(words.rounds):
            said = play(bed, words.seed + number)
            fates[said.partition(":")[0]] += 1
            print(f"round {number + 1}, seed {words.seed + number}: {said}", flush=True)
        assert_nothing_is_left_over(bed)
        print(f"{words.rounds} rounds from seed {words.seed}: {dict(fates)}")
        print(f"catalog answers: {dict(bed.proxy.chances.done)}; 0 lost, 0 doubled, nothing left over")
    return 0


if __name__ == "__main__":
    sys.exit(main())
