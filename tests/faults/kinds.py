"""The kinds of faults. Each begins here; `Cluster.heal` ends it. What it hits is drawn from the round's own chance."""

import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .cluster import SESSION_MS, Cluster

if TYPE_CHECKING:
    from .downstream import Downstream

Begin = Callable[[Cluster, random.Random], None]
SESSION_S = SESSION_MS / 1000
LEADER_MS = 3 * SESSION_MS
"""A new leader is there sooner, if there can be one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault, and how long it lasts at least and at most."""

    begin: Begin
    least_s: float = 0.0
    most_s: float = 2.0
    is_ours: bool = False
    """Whether it concerns ZooKeeper, or needs what only our brokers' cluster has."""
    needs_wide: bool = False
    needs_downstream: bool = False
    """It hits a process behind the cluster."""


def kill_leader(cluster: Cluster, chance: random.Random) -> None:
    cluster.kill(_leader(cluster, chance))


def kill_follower(cluster: Cluster, chance: random.Random) -> None:
    cluster.kill(_follower(cluster, chance))


def kill_two(cluster: Cluster, chance: random.Random) -> None:
    first, second = chance.sample(sorted(cluster.brokers), 2)
    pause_s = chance.random() * 3
    cluster.kill(first)
    time.sleep(pause_s)
    cluster.kill(second)


def kill_all(cluster: Cluster, chance: random.Random) -> None:
    for broker_id in chance.sample(sorted(cluster.brokers), len(cluster.brokers)):
        cluster.kill(broker_id)
        time.sleep(chance.random() * 0.5)


def kill_one_by_one(cluster: Cluster, chance: random.Random) -> None:
    """The next leader is killed as soon as it leads, the one before being back but perhaps not in sync."""
    for _ in range(3):
        cluster.kill(_leader(cluster, chance, 0))
        cluster.heal()


def freeze_leader(cluster: Cluster, chance: random.Random) -> None:
    """For longer than its session, or for less: `plans` draws it."""
    cluster.freeze(_leader(cluster, chance))


def freeze_follower(cluster: Cluster, chance: random.Random) -> None:
    cluster.freeze(_follower(cluster, chance))


def stop_one(cluster: Cluster, chance: random.Random) -> None:
    cluster.stop(chance.choice(sorted(cluster.brokers)))


def restart_in_turn(cluster: Cluster, chance: random.Random) -> None:
    """A rolling restart: the next broker stops when all replicas are in sync again."""
    for broker_id in chance.sample(sorted(cluster.brokers), len(cluster.brokers)):
        cluster.stop(broker_id)
        cluster.heal()
        cluster.await_whole()


def lose_disk(cluster: Cluster, chance: random.Random) -> None:
    """A broker comes back with an empty folder, once ZooKeeper has forgotten the old one."""
    broker_id = chance.choice(sorted(cluster.brokers))
    cluster.kill(broker_id)
    shutil.rmtree(cluster.brokers[broker_id].data)


def fill_disk_of_leader(cluster: Cluster, chance: random.Random) -> None:
    cluster.fill_disk(_leader(cluster, chance))


def fill_disk_of_follower(cluster: Cluster, chance: random.Random) -> None:
    cluster.fill_disk(_follower(cluster, chance))


def kill_keepers(cluster: Cluster, chance: random.Random) -> None:
    cluster.keepers.kill_all()


def kill_keepers_leader(cluster: Cluster, chance: random.Random) -> None:
    cluster.keepers.kill_leader()


def kill_keepers_and_leader(cluster: Cluster, chance: random.Random) -> None:
    """No replica can take over until ZooKeeper is back."""
    leader = _leader(cluster, chance, 0)
    cluster.keepers.kill_all()
    cluster.kill(leader)


def cut_broker_off(cluster: Cluster, chance: random.Random) -> None:
    """From all other brokers, both ways; clients and ZooKeeper still reach it."""
    broker_id = chance.choice(sorted(cluster.brokers))
    for direction in ("to", "from"):
        cluster.from_brokers[broker_id].cut(direction)  # type: ignore[arg-type]  # one of the two
        for other, lane in cluster.from_brokers.items():
            if other != broker_id:
                lane.cut(direction, broker_id)  # type: ignore[arg-type]


def cut_to_leader(cluster: Cluster, chance: random.Random) -> None:
    """What followers tell the leader is lost; what it sends arrives."""
    cluster.from_brokers[_leader(cluster, chance)].cut("to")


def cut_from_leader(cluster: Cluster, chance: random.Random) -> None:
    """What the leader sends is lost; it still hears its followers."""
    cluster.from_brokers[_leader(cluster, chance)].cut("from")


def cut_one_pair(cluster: Cluster, chance: random.Random) -> None:
    """One follower of a leader loses it, in one direction; the other follower does not."""
    leader = _leader(cluster, chance)
    follower = chance.choice([one for one in sorted(cluster.brokers) if one != leader])
    cluster.from_brokers[leader].cut(chance.choice(("to", "from")), follower)


def cut_to_keepers(cluster: Cluster, chance: random.Random) -> None:
    _cut_keepers(cluster, chance, "to")


def cut_from_keepers(cluster: Cluster, chance: random.Random) -> None:
    _cut_keepers(cluster, chance, "from")


def cut_clients_to(cluster: Cluster, chance: random.Random) -> None:
    cluster.from_clients[_leader(cluster, chance)].cut("to")


def cut_clients_from(cluster: Cluster, chance: random.Random) -> None:
    """Writes arrive, and their acknowledgements are lost."""
    cluster.from_clients[_leader(cluster, chance)].cut("from")


def kill_mirror(cluster: Cluster, chance: random.Random) -> None:
    _downstream(cluster).kill("mirror")


def freeze_mirror(cluster: Cluster, chance: random.Random) -> None:
    _downstream(cluster).freeze("mirror")


def kill_audit(cluster: Cluster, chance: random.Random) -> None:
    _downstream(cluster).kill("audit")


def kill_registry(cluster: Cluster, chance: random.Random) -> None:
    _downstream(cluster).kill("registry")


def kill_offline_broker(cluster: Cluster, chance: random.Random) -> None:
    _downstream(cluster).kill("offline broker")


def _downstream(cluster: Cluster) -> "Downstream":
    assert cluster.downstream is not None, "this kind is drawn for clusters with a mirror only"
    return cluster.downstream


def _cut_keepers(cluster: Cluster, chance: random.Random, direction: str) -> None:
    broker_id = chance.choice((_leader(cluster, chance), *sorted(cluster.brokers)))
    for lane in cluster.to_keepers[broker_id]:
        lane.cut(direction)  # type: ignore[arg-type]  # one of the two


def _leader(cluster: Cluster, chance: random.Random, partition: int | None = None) -> int:
    """Return the leader of a partition, drawn if none is given; a drawn broker if there is none: an earlier fault took all."""
    try:
        return cluster.leader(chance.randrange(cluster.partitions) if partition is None else partition, LEADER_MS)
    except AssertionError:
        return chance.choice(sorted(cluster.brokers))


def _follower(cluster: Cluster, chance: random.Random) -> int:
    leader = _leader(cluster, chance, 0)
    return chance.choice([one for one in sorted(cluster.brokers) if one != leader])


KINDS: Mapping[str, Kind] = {
    "kill_leader": Kind(kill_leader),
    "freeze_leader": Kind(freeze_leader, SESSION_S, SESSION_S + 3),
    "kill_follower": Kind(kill_follower),
    "stall_leader": Kind(freeze_leader, 0.2, 3),
    "freeze_follower": Kind(freeze_follower, 1, 5),
    "stop_one": Kind(stop_one),
    "kill_two": Kind(kill_two),
    "kill_all": Kind(kill_all),
    "kill_one_by_one": Kind(kill_one_by_one, 0, 0.2),
    "lose_disk": Kind(lose_disk, SESSION_S + 1, SESSION_S + 2, is_ours=True),
    "kill_keepers": Kind(kill_keepers, 0.2, 2 * SESSION_S, is_ours=True),
    "kill_keepers_and_leader": Kind(kill_keepers_and_leader, 1, 4, is_ours=True),
    "restart_in_turn": Kind(restart_in_turn, 0, 0.2),
    "fill_disk_of_leader": Kind(fill_disk_of_leader, 1, 4, is_ours=True),
    "fill_disk_of_follower": Kind(fill_disk_of_follower, 1, 4, is_ours=True),
    "kill_keepers_leader": Kind(kill_keepers_leader, 1, SESSION_S, is_ours=True, needs_wide=True),
    "cut_broker_off": Kind(cut_broker_off, 1, SESSION_S + 3, is_ours=True, needs_wide=True),
    "cut_to_leader": Kind(cut_to_leader, 1, SESSION_S + 3, is_ours=True, needs_wide=True),
    "cut_from_leader": Kind(cut_from_leader, 1, SESSION_S + 3, is_ours=True, needs_wide=True),
    "cut_one_pair": Kind(cut_one_pair, 1, SESSION_S + 3, is_ours=True, needs_wide=True),
    "cut_to_keepers": Kind(cut_to_keepers, 1, SESSION_S + 3, is_ours=True, needs_wide=True),
    "cut_from_keepers": Kind(cut_from_keepers, 1, SESSION_S + 3, is_ours=True, needs_wide=True),
    "cut_clients_to": Kind(cut_clients_to, 1, 4, is_ours=True, needs_wide=True),
    "cut_clients_from": Kind(cut_clients_from, 1, 4, is_ours=True, needs_wide=True),
    "kill_mirror": Kind(kill_mirror, 0, 4, needs_downstream=True),
    "freeze_mirror": Kind(freeze_mirror, 1, 10, needs_downstream=True),
    "kill_audit": Kind(kill_audit, 0, 4, needs_downstream=True),
    "kill_registry": Kind(kill_registry, 0, 4, needs_downstream=True),
    "kill_offline_broker": Kind(kill_offline_broker, 0, 4, needs_downstream=True),
}
"""The first rounds of a run play each of them once, in this order."""
