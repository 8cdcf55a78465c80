"""Rounds of faults under load, drawn from a seed, and the checks at the end.

The sleeps are how long a fault lasts, drawn from the seed. What is to follow is awaited by a condition with a deadline.
"""

import random
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .clients import Reading, Sending, read_all
from .cluster import SESSION_MS, TOPIC, Cluster, within
from .history import History, differences, faults, log_bytes

CALM_S = 0.7


def kill_leader(cluster: Cluster, chance: random.Random) -> None:
    cluster.kill(cluster.leader(chance.randrange(cluster.partitions)))


def freeze_leader(cluster: Cluster, chance: random.Random) -> None:
    leader = cluster.leader(chance.randrange(cluster.partitions))
    cluster.freeze(leader)
    time.sleep(SESSION_MS / 1000 + chance.random() * 3)


def stall_leader(cluster: Cluster, chance: random.Random) -> None:
    """Shorter than its session with ZooKeeper."""
    cluster.freeze(cluster.leader(chance.randrange(cluster.partitions)))
    time.sleep(chance.random() * 3)


def kill_follower(cluster: Cluster, chance: random.Random) -> None:
    leader = cluster.leader(0)
    cluster.kill(chance.choice([each for each in cluster.brokers if each != leader]))


def freeze_follower(cluster: Cluster, chance: random.Random) -> None:
    leader = cluster.leader(0)
    cluster.freeze(chance.choice([each for each in cluster.brokers if each != leader]))
    time.sleep(1 + chance.random() * 4)


def stop_one(cluster: Cluster, chance: random.Random) -> None:
    cluster.stop(chance.choice(sorted(cluster.brokers)))


def kill_two(cluster: Cluster, chance: random.Random) -> None:
    first, second = chance.sample(sorted(cluster.brokers), 2)
    cluster.kill(first)
    time.sleep(chance.random() * 3)
    cluster.kill(second)


def kill_all(cluster: Cluster, chance: random.Random) -> None:
    order = sorted(cluster.brokers)
    chance.shuffle(order)
    for broker_id in order:
        cluster.kill(broker_id)
        time.sleep(chance.random() * 0.5)


def kill_one_by_one(cluster: Cluster, chance: random.Random) -> None:
    """The next leader is killed as soon as it leads, the one before being back but perhaps not in sync."""
    for _ in range(3):
        cluster.kill(cluster.leader(0))
        cluster.heal()


def lose_disk(cluster: Cluster, chance: random.Random) -> None:
    """A broker comes back with an empty folder, once ZooKeeper has forgotten the old one."""
    broker_id = chance.choice(sorted(cluster.brokers))
    cluster.kill(broker_id)
    shutil.rmtree(cluster.brokers[broker_id].data)
    time.sleep(SESSION_MS / 1000 + 1)


def kill_zookeeper(cluster: Cluster, chance: random.Random) -> None:
    cluster.zookeeper.kill()
    time.sleep(chance.random() * 2 * SESSION_MS / 1000)


def kill_zookeeper_and_leader(cluster: Cluster, chance: random.Random) -> None:
    """Nobody can take over until ZooKeeper is back."""
    leader = cluster.leader(0)
    cluster.zookeeper.kill()
    cluster.kill(leader)
    time.sleep(1 + chance.random() * 3)
    cluster.zookeeper.start()
    time.sleep(chance.random() * 3)


FAULTS: tuple[Callable[[Cluster, random.Random], None], ...] = (
    kill_leader,
    freeze_leader,
    kill_follower,
    stall_leader,
    freeze_follower,
    stop_one,
    kill_two,
    kill_all,
    kill_one_by_one,
    lose_disk,
    kill_zookeeper,
    kill_zookeeper_and_leader,
)


def _is_on(one: Sending, two: Sending, count: int) -> bool:
    return one.count + two.count > count


def play(
    folder: Path, *, seed: int, rounds: int, tell: Callable[[str], None] = lambda line: None, least: int = 0
) -> tuple[History, list[str]]:
    """Play the rounds; return the history, and what is wrong. `least`: fewer acknowledgements are a fault, too."""
    chance = random.Random(seed)
    history = History()
    config = {"segment.bytes": "65536"}
    with Cluster(folder, config=config) as cluster:
        try:
            with (
                Reading(cluster, history) as reading,
                Sending(cluster, history, "a") as one,
                Sending(cluster, history, "b") as two,
            ):
                for number in range(rounds):
                    fault = FAULTS[number % len(FAULTS)] if number < len(FAULTS) else chance.choice(FAULTS)
                    time.sleep(CALM_S * chance.random())
                    for sending in (one, two):
                        sending.longest_pause_s = 0.0
                    begun_s = time.monotonic()
                    fault(cluster, chance)
                    time.sleep(CALM_S * chance.random())
                    cluster.heal()
                    cluster.await_whole()
                    count = one.count + two.count
                    assert within(30, partial(_is_on, one, two, count + 20)), f"nothing is acknowledged\n{cluster.told()}"
                    pause_s = max(one.longest_pause_s, two.longest_pause_s)
                    tell(
                        f"round {number + 1} {fault.__name__}: {time.monotonic() - begun_s:.1f} s, longest pause "
                        f"{pause_s:.2f} s, {len(history.acknowledged)} acknowledged"
                    )
                one.end()
                two.end()
                within(30, lambda: len(history.read) >= len(history.acknowledged))
            ends = read_all(cluster, history)
            wrong = [f"consumer: {error}" for error in reading.errors] + faults(history)
            cluster.await_whole()
            for broker in cluster.brokers.values():
                assert broker.stop() == 0, "a broker does not stop"
            for partition, end in ends.items():
                logs = {
                    broker_id: log_bytes(broker.data / f"{TOPIC}-{partition}") for broker_id, broker in cluster.brokers.items()
                }
                wrong += [f"partition {partition}: {difference}" for difference in differences(logs, end)]
            if len(history.acknowledged) < least:
                wrong.append(f"only {len(history.acknowledged)} records were acknowledged: nothing was tested")
            wrong += [error for error in cluster.errors() if "Traceback" in error or "failed" in error]
            return history, [*wrong[:20], *([cluster.told()] if wrong else [])]
        except BaseException:
            tell(cluster.told())
            raise
