"""What each kind of fault does to the cluster."""

import json
from collections.abc import Callable

from .administration import PREFERRED, UNCLEAN, Administrator
from .clients import CLIENTS, PARTITIONS
from .cluster import TOPIC, Cluster
from .ensemble import SERVERS, Act
from .plans import MOST_TARGETS, Fault, Plan
from .scheduler import Process
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


def _last_power(cluster: Cluster, broker_id: int, size: int) -> None:
    """The others die; then the one that is left loses its power."""
    for other in cluster.brokers:
        if other != broker_id:
            cluster.kill(other)
            cluster.sim.call_in(1_200 + 2 * size, lambda other=other: cluster.start(other))  # type: ignore[misc]
    cluster.sim.call_in(200 + size, lambda: _power(cluster, broker_id, size // 4))


def _remake(cluster: Cluster, broker_id: int, size: int) -> None:
    """A broker is down while the short topic is deleted and made again."""
    cluster.is_down_at_deletion = broker_id


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


# -- around a swap of a partition's node: of this broker, or with an odd size the next one of any ----


def _at_swap(cluster: Cluster, broker_id: int, size: int, act: Callable[[int, list[Act]], float | None]) -> None:
    """`act` gets the broker that asks. None: this swap is not what it waits for."""

    def armed(process: Process, acts: list[Act]) -> float | None:
        asking = next(one for one, host in cluster.hosts.items() if host.process is process)
        return act(asking, acts) if size % 2 or asking == broker_id else None

    cluster.ensemble.arm(armed)


def _late_swap(cluster: Cluster, broker_id: int, size: int) -> None:
    """It arrives late, and so does all that its session sends after it."""
    _at_swap(cluster, broker_id, size, lambda asking, acts: 50 + 2.5 * size)


def _orphaned_swap(cluster: Cluster, broker_id: int, size: int) -> None:
    """Its process dies, and it arrives when the next process of this broker works already."""

    def act(asking: int, acts: list[Act]) -> float:
        down = cluster.cut_power if size % 4 > 1 else cluster.kill
        cluster.sim.call_in(0.2, lambda: down(asking))
        cluster.sim.call_in(100 + size % 200, lambda: cluster.start(asking))
        return 400 + 2.0 * size

    _at_swap(cluster, broker_id, size, act)


def _fatal_swap(cluster: Cluster, broker_id: int, size: int) -> None:
    """Its process dies before it is answered, or soon after."""

    def act(asking: int, acts: list[Act]) -> float:
        cluster.sim.call_in(0.2 + size / 50, lambda: _kill(cluster, asking, size))
        return 0.0

    _at_swap(cluster, broker_id, size, act)


def _unanswered_swap(cluster: Cluster, broker_id: int, size: int) -> None:
    """It is carried out, and its broker does not hear of it. The others may not hear of it soon."""

    def act(asking: int, acts: list[Act]) -> float:
        _cut(cluster, size, (HOST, f"broker-{asking}"))
        if size % 4 > 1:
            for number in range(SERVERS):
                _lag(cluster, number, size)
        return 0.0

    _at_swap(cluster, broker_id, size, act)


def _newcomer(cluster: Cluster, broker_id: int, size: int) -> None:
    """A broker comes into the set, the others do not reach it any more, and die. So it is the one that takes over."""

    def act(asking: int, acts: list[Act]) -> float | None:
        new = next((one for act in acts if (one := _added(cluster, act)) is not None), None)
        if new is None:
            return None
        here, dies_ms = f"broker-{new}", 1.5 * size
        others = [one for one in cluster.brokers if one != new]
        links = [(f"broker-{one}", here) for one in others] + [(here, f"broker-{one}") for one in others]
        if size % 4 > 1:
            links.append((HOST, f"broker-{asking}"))
        cluster.sim.note("newcomer", new)
        network = cluster.network
        network.cut.update(links)

        def mend() -> None:
            for link in links:
                network.mend(link)

        for one in others:
            cluster.sim.call_in(dies_ms, lambda one=one: cluster.kill(one))  # type: ignore[misc]
            cluster.sim.call_in(dies_ms + 200, lambda one=one: _expire(cluster, one, size))  # type: ignore[misc]
            cluster.sim.call_in(dies_ms + 2_000, lambda one=one: cluster.start(one))  # type: ignore[misc]
        cluster.sim.call_in(dies_ms + 1_900, mend)
        return 0.0

    _at_swap(cluster, broker_id, 1, act)


def _added(cluster: Cluster, act: Act) -> int | None:
    """Return the broker that comes into a partition's set by this change of its node."""
    node = cluster.ensemble.leader.nodes.get(act.path)
    if act.what != "write" or node is None:
        return None
    before = {int(one[0]) for one in json.loads(node.data)["members"]}
    after = [int(one[0]) for one in json.loads(act.data)["members"]]
    return next((one for one in after if before and one not in before), None)


FAULTS: dict[str, Callable[[Cluster, int, int], None]] = {
    "kill": _kill,
    "kill all": _kill_all,
    "power": _power,
    "last power": _last_power,
    "remake": _remake,
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
    "late swap": _late_swap,
    "orphaned swap": _orphaned_swap,
    "fatal swap": _fatal_swap,
    "unanswered swap": _unanswered_swap,
    "newcomer": _newcomer,
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
    cluster.ensemble.disarm()
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
