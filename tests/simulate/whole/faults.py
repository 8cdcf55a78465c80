"""What each kind of fault does to the cluster."""

from collections.abc import Callable

from .administration import PREFERRED, UNCLEAN, Administrator
from .clients import CLIENTS, PARTITIONS
from .cluster import TOPIC, Cluster
from .ensemble import SERVERS
from .plans import MOST_TARGETS, Fault, Plan
from .zookeeper_client import HOST


def _chosen(cluster: Cluster, target: int) -> int:
    if target >= MOST_TARGETS // 2:
        leader = cluster.leader_of(target % PARTITIONS)
        if leader in cluster.brokers:
            return leader
    return cluster.brokers[target % len(cluster.brokers)]


def _for_a_while(cluster: Cluster, size: int, begin: Callable[[], None], end: Callable[[], None]) -> None:
    begin()
    cluster.sim.call_in(50 + 6 * size, end)


def _down(cluster: Cluster, broker_id: int, size: int, act: Callable[[int], None]) -> None:
    act(broker_id)
    cluster.sim.call_in(100 + 5 * size, lambda: cluster.start(broker_id))


def _kill(cluster: Cluster, broker_id: int, size: int) -> None:
    _down(cluster, broker_id, size, cluster.kill)


def _kill_all(cluster: Cluster, broker_id: int, size: int) -> None:
    for one in cluster.brokers:
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
    other = cluster.brokers[(broker_id + size) % len(cluster.brokers)]
    _cut(cluster, size, (f"broker-{broker_id}", f"broker-{other}"))


def _alone(cluster: Cluster, broker_id: int, size: int) -> None:
    """Cut off from the other brokers, and perhaps from ZooKeeper. Clients reach it."""
    here = f"broker-{broker_id}"
    others = [f"broker-{other}" for other in cluster.brokers if other != broker_id]
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
    server = cluster.ensemble.servers[broker_id % SERVERS]
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


def _damage(cluster: Cluster, broker_id: int, size: int) -> None:
    cluster.damage(broker_id, TOPIC, size % PARTITIONS, size)


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
    "damage": _damage,
}
QUESTIONS: dict[str, Callable[[Administrator, int, int], None]] = {
    "move": lambda admin, target, size: admin.move(target % PARTITIONS, size),
    "elect": lambda admin, target, size: admin.elect(PREFERRED),
    "recover": lambda admin, target, size: admin.elect(UNCLEAN),
    "delete records": lambda admin, target, size: admin.delete_records(target % PARTITIONS, size),
}


def arrange(cluster: Cluster, admin: Administrator, plan: Plan) -> None:
    """Let the plan's faults happen, from now on."""
    for fault in plan.faults:
        cluster.sim.call_in(fault.at_ms, lambda fault=fault: _befall(cluster, admin, fault))  # type: ignore[misc]


def _befall(cluster: Cluster, admin: Administrator, fault: Fault) -> None:
    cluster.sim.note("fault:", fault.name, fault.target, fault.size)
    if fault.name in QUESTIONS:
        QUESTIONS[fault.name](admin, fault.target, fault.size)
    else:
        FAULTS[fault.name](cluster, _chosen(cluster, fault.target), fault.size)


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
    for broker_id in cluster.brokers:
        cluster.set_disk_ms(broker_id, 3.0)
        cluster.resume(broker_id)
        cluster.start(broker_id)
