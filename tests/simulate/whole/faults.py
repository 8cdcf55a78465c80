"""What befalls a run: drawn from its seed as a list of faults with their times, of few kinds in each run.

A fault is a name, a time and two numbers, so that a list stays playable when faults are removed from it.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

from .cluster import BROKERS, Cluster
from .zookeeper_client import HOST

RUN_MS = 12_000
"""How long faults come, after the topic was made. Then all is healed."""
CLIENTS = "clients"


class Fault(NamedTuple):
    """`target` chooses the broker: 0 to 2 by its number, 3 to 5 the leader of a partition. `size`, 0 to 999: how long or much."""

    name: str
    at_ms: int
    target: int
    size: int


class Plan(NamedTuple):
    """What a seed gives."""

    seed: int
    settings: tuple[str, ...]
    config: tuple[tuple[str, str], ...]
    faults: tuple[Fault, ...]


def _chosen(cluster: Cluster, target: int) -> int:
    if target >= len(BROKERS):
        leader = cluster.leader_of(target % 2)
        if leader in BROKERS:
            return leader
    return BROKERS[target % len(BROKERS)]


def _for_a_while(cluster: Cluster, size: int, begin: Callable[[], None], end: Callable[[], None]) -> None:
    begin()
    cluster.sim.call_in(50 + 6 * size, end)


def _down(cluster: Cluster, broker_id: int, size: int, act: Callable[[int], None]) -> None:
    act(broker_id)
    cluster.sim.call_in(100 + 5 * size, lambda: cluster.start(broker_id))


def _kill(cluster: Cluster, broker_id: int, size: int) -> None:
    _down(cluster, broker_id, size, cluster.kill)


def _kill_all(cluster: Cluster, broker_id: int, size: int) -> None:
    for one in BROKERS:
        _down(cluster, one, size * one % 300, cluster.kill)


def _power(cluster: Cluster, broker_id: int, size: int) -> None:
    _down(cluster, broker_id, size, cluster.cut_power)


def _stop(cluster: Cluster, broker_id: int, size: int) -> None:
    cluster.stop(broker_id)
    cluster.sim.call_in(3_000 + 3 * size, lambda: cluster.start(broker_id))


def _die_soon(cluster: Cluster, broker_id: int, size: int) -> None:
    cluster.die_soon(broker_id, size % 40)
    cluster.sim.call_in(1_500 + 3 * size, lambda: cluster.start(broker_id))


def _pause(cluster: Cluster, broker_id: int, size: int) -> None:
    host = cluster.hosts[broker_id]
    _for_a_while(cluster, size, lambda: cluster.pause(broker_id), lambda: _resume(cluster, broker_id, host))


def _resume(cluster: Cluster, broker_id: int, host: object) -> None:
    if cluster.hosts[broker_id] is host:
        cluster.resume(broker_id)


def _cut(cluster: Cluster, size: int, *links: tuple[str, str]) -> None:
    network = cluster.network
    cluster.sim.note("cut", *links)

    def mend() -> None:
        for link in links:
            network.mend(link)

    _for_a_while(cluster, size, lambda: network.cut.update(links), mend)


def _one_way(cluster: Cluster, broker_id: int, size: int) -> None:
    other = BROKERS[(broker_id + size) % len(BROKERS)]
    _cut(cluster, size, (f"broker-{broker_id}", f"broker-{other}"))


def _alone(cluster: Cluster, broker_id: int, size: int) -> None:
    """Cut off from the other brokers, and perhaps from ZooKeeper. Clients reach it."""
    here = f"broker-{broker_id}"
    others = [f"broker-{other}" for other in BROKERS if other != broker_id]
    others += [HOST] if size % 2 else []
    _cut(cluster, size, *((here, other) for other in others), *((other, here) for other in others))


def _from_clients(cluster: Cluster, broker_id: int, size: int) -> None:
    _cut(cluster, size, (f"broker-{broker_id}", CLIENTS) if size % 2 else (CLIENTS, f"broker-{broker_id}"))


def _from_zookeeper(cluster: Cluster, broker_id: int, size: int) -> None:
    here = f"broker-{broker_id}"
    both = ((here, HOST), (HOST, here))
    _cut(cluster, size, *(both if size % 3 == 0 else both[:1] if size % 3 == 1 else both[1:]))


def _away(cluster: Cluster, broker_id: int, size: int) -> None:
    ensemble = cluster.ensemble
    cluster.sim.note("zookeeper is away")
    _for_a_while(cluster, size, lambda: setattr(ensemble, "is_away", True), lambda: setattr(ensemble, "is_away", False))


def _lag(cluster: Cluster, broker_id: int, size: int) -> None:
    server = cluster.ensemble.servers[broker_id - 1]
    cluster.sim.note("server", server.number, "lags")
    _for_a_while(cluster, size, lambda: setattr(server, "lag_ms", 4.0 * size), lambda: setattr(server, "lag_ms", 0.0))


def _expire(cluster: Cluster, broker_id: int, size: int) -> None:
    name = f"/brokers/ids/{broker_id}"
    node = cluster.ensemble.leader.nodes.get(name)
    if node is not None and not cluster.ensemble.is_away:
        cluster.ensemble.end_session(cluster.ensemble.sessions[node.owner])


def _slow_disk(cluster: Cluster, broker_id: int, size: int) -> None:
    cluster.sim.note("slow disk", broker_id)
    _for_a_while(cluster, size, lambda: cluster.set_disk_ms(broker_id, 3.0 + size), lambda: cluster.set_disk_ms(broker_id, 3.0))


def _slow_network(cluster: Cluster, broker_id: int, size: int) -> None:
    network = cluster.network
    _for_a_while(
        cluster, size, lambda: setattr(network, "slowest_ms", 2.0 + size / 10), lambda: setattr(network, "slowest_ms", 2.0)
    )


def _clock(cluster: Cluster, broker_id: int, size: int) -> None:
    cluster.sim.note("clock of", broker_id, "jumps")
    cluster.jump_clock(broker_id, (size - 500) * 7_200)


FAULTS: dict[str, Callable[[Cluster, int, int], None]] = {
    "kill": _kill,
    "kill all": _kill_all,
    "power": _power,
    "stop": _stop,
    "die soon": _die_soon,
    "pause": _pause,
    "one way": _one_way,
    "alone": _alone,
    "from clients": _from_clients,
    "from zookeeper": _from_zookeeper,
    "away": _away,
    "lag": _lag,
    "expire": _expire,
    "slow disk": _slow_disk,
    "slow network": _slow_network,
    "clock": _clock,
}
WEIGHTS = {"kill": 3, "power": 3, "die soon": 3, "pause": 3, "expire": 2, "alone": 2, "lag": 2, "kill all": 0.5, "away": 0.7}


def drawn(seed: int) -> Plan:
    """Return the plan of a seed: some kinds of faults, not all, so that each run goes deep somewhere."""
    chance = random.Random(f"plan {seed}")
    kinds = [name for name in FAULTS if chance.random() < 0.35] or ["kill"]
    weights = [WEIGHTS.get(name, 1) for name in kinds]
    count = chance.randint(3, 14)
    faults = [
        Fault(name, chance.randrange(RUN_MS), chance.randrange(2 * len(BROKERS)), chance.randrange(1_000))
        for name in chance.choices(kinds, weights, k=count)
    ]
    # Two live members must be asked for power cuts to lose nothing, unless acknowledgements wait for the disk.
    has_power_cuts = "power" in kinds
    config = {"segment.bytes": chance.choice(("4096", "16384", "1048576"))}
    if has_power_cuts or chance.random() < 0.3:
        config["flush.ack"] = "always"
    return Plan(seed, (), tuple(sorted(config.items())), tuple(sorted(faults, key=lambda one: one.at_ms)))


def arrange(cluster: Cluster, plan: Plan) -> None:
    """Let the plan's faults happen, from now on."""
    for fault in plan.faults:
        cluster.sim.call_in(fault.at_ms, lambda fault=fault: _befall(cluster, fault))  # type: ignore[misc]


def _befall(cluster: Cluster, fault: Fault) -> None:
    broker_id = _chosen(cluster, fault.target)
    cluster.sim.note("fault:", fault.name, broker_id, fault.size)
    FAULTS[fault.name](cluster, broker_id, fault.size)


def heal(cluster: Cluster) -> None:
    """End all that is wrong, and start what is down."""
    cluster.is_healed = True
    network, ensemble = cluster.network, cluster.ensemble
    for link in sorted(network.cut):
        network.mend(link)
    network.slowest_ms, ensemble.is_away = 2.0, False
    cluster.disks.dies_after.clear()
    for server in ensemble.servers:
        server.lag_ms = 0.0
        server.catch_up(len(ensemble.log))
    for broker_id in BROKERS:
        cluster.set_disk_ms(broker_id, 3.0)
        cluster.resume(broker_id)
        cluster.start(broker_id)


def told(plan: Plan) -> str:
    return "\n".join(f"  {one.at_ms:6} ms {one.name}, broker {one.target}, size {one.size}" for one in plan.faults)
