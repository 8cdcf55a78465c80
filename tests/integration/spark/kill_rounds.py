"""`python -m tests.integration.spark.kill_rounds`: kills loads of all topics at random, and looks at every record after each.

A round adds records to some topics, starts `headrace.spark.all_topics.command`, and kills it (alone, or with its JVM) after a
random time or at a random commit. Other loads, of which sometimes only the JVM dies, then make it whole: each record of each log
stands once in its table, the books say what the files hold, and nothing is left over. The last line says how many kills found
which state.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from headrace.local.supervisor.descendants import descendants
from headrace.spark.load.topic_load import TopicLoad
from tests.support.broker import BrokerProcess
from tests.support.processes import Process
from tests.support.registry import RegistryProcess
from tests.support.spark_stage import CLICK, LONG_AGO_MS, MINUTE_MS, click
from tests.support.zookeeper import ZooKeeperProcess

from .test_all_topics import Stages, assert_each_record_is_there_once
from .test_load_job import addresses

TOPICS = 8
LONGEST_S = 25.0
"""A load that lives longer is not killed."""
POINTS = ("load.before_commit", "load.after_commit")


def play(stages: Stages, chance: random.Random) -> str:
    """Play a round and return the state that the kill left. Raises AssertionError."""
    touched = chance.sample(stages.all, chance.randint(1, TOPICS))
    for stage in touched:
        schema_id = stage.register(CLICK)
        count = chance.choice((1, 3, 40, 400))
        stage.send([(chance.randrange(3), LONG_AGO_MS + n * MINUTE_MS, click(schema_id, n)) for n in range(count)])
    before = rows_of(stages)
    process = stages.process()
    until = chance.choice((at_a_time, at_a_commit))(stages, process, chance)
    while process.is_running() and not until():
        time.sleep(0.01)
    was_running = process.is_running()
    if was_running:
        family = [pid for pid in descendants(process.pid) if chance.random() < 0.5]
        for pid in (process.pid, *family):
            kill(pid)
    process.kill()
    for armed in (stages.home / "failpoints").glob("*"):
        armed.unlink()
    changed = [one for one, count in rows_of(stages).items() if count != before[one]]
    if chance.random() < 0.25:
        with a_jvm_that_dies():
            stages.load(topics=2)  # a topic that was alone in its batch may be at fault by it
    done = stages.load()
    assert done.faults == {}, done.faults
    assert_each_record_is_there_once(stages)
    for stage in stages.all:
        table = stage.warehouse.table(stage.topic)
        if table is not None:
            left = set(stage.warehouse.data_folder(stage.topic).glob("*/rows-*/*/*.parquet"))
            assert left == {path for path in table.referenced_paths() if path.suffix == ".parquet"}, stage.topic
    if not was_running:
        return "not killed"
    return "nothing committed" if not changed else "all committed" if len(changed) == len(touched) else "some committed"


@contextmanager
def a_jvm_that_dies() -> Iterator[None]:
    """Kill the JVM of this process at the first commit: another one loads the topics that are left."""
    commit, killed = TopicLoad.commit, list[int]()

    def commit_and_kill(load: TopicLoad, *words: Any) -> Any:
        done = commit(load, *words)
        if not killed:
            killed.append(SparkContext._gateway.proc.pid)
            kill(killed[0])
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TopicLoad, "commit", commit_and_kill)
        yield


def rows_of(stages: Stages) -> dict[str, int]:
    return {one.topic: len(addresses(one)) for one in stages.all}


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def at_a_time(stages: Stages, process: Process, chance: random.Random) -> Callable[[], bool]:
    end = time.monotonic() + chance.uniform(0.5, LONGEST_S)
    return lambda: time.monotonic() > end


def at_a_commit(stages: Stages, process: Process, chance: random.Random) -> Callable[[], bool]:
    """Have the load wait at commits, and continue from all but the one at which it is killed."""
    armed = stages.home / "failpoints" / chance.choice(POINTS)
    armed.parent.mkdir(exist_ok=True)
    armed.touch()
    reached = armed.with_name(f"{armed.name}.reached")
    left = chance.randint(0, 3)

    def is_there() -> bool:
        nonlocal left
        if not reached.exists():
            return False
        if left == 0:
            return True
        left -= 1
        armed.unlink()
        reached.unlink()
        time.sleep(0.03)  # it looks every 20 ms, and continues
        armed.touch()
        return False

    return is_there


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.spark.kill_rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    words = parser.parse_args()
    states: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="headrace-kill-rounds-") as name:
        folder = Path(name)
        with ZooKeeperProcess(folder / "zookeeper") as zookeeper:
            address = f"{zookeeper.address}/kills-{uuid.uuid4().hex[:8]}"
            with (
                BrokerProcess(folder / "broker", address) as broker,
                RegistryProcess(folder / "registry", broker.address) as registry,
            ):
                stages = Stages(broker, registry, folder / "home")
                stages.home.mkdir()
                stages.make(*[0] * TOPICS)
                try:
                    for number in range(words.rounds):
                        seed = words.seed + number
                        state = play(stages, random.Random(seed))
                        states[state] += 1
                        print(f"round {number + 1}, seed {seed}: {state}", flush=True)
                finally:
                    stages.close()
    print(f"{words.rounds} rounds from seed {words.seed}: {dict(states)}, 0 lost, 0 doubled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
