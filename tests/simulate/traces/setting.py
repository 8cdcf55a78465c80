"""Where the traces begin and end."""

from headrace.broker.replication.replica import Leading

from ..broker import SimulatedBroker
from ..world import SILENT_MS, World


def led(*, acks_on_disk: bool = False, records: int = 1) -> World:
    """Return a world that broker 1 leads, all three in the set, with some acknowledged records."""
    world = World(acks_on_disk=acks_on_disk)
    world.start_all()
    world.elect(1)
    for _ in range(records):
        world.produce(1)
    world.settle()
    for broker_id in world.brokers:
        world.read_node(broker_id)
    assert len(world.node().members) == 3
    assert len(world.checks.acked) == records
    return world


def ended(world: World) -> None:
    world.heal()
    world.checks.at_the_end()


def out_of_set(world: World, broker_id: int) -> SimulatedBroker:
    """Kill a broker and let the leader remove it; return it."""
    broker = world.brokers[broker_id]
    broker.kill()
    world.zookeeper.registered.pop(broker_id, None)
    for _ in range(2):
        world.now_ms += SILENT_MS
        for other in world.brokers.values():
            if other is not broker and other.replica is not None and not isinstance(other.replica.role, Leading):
                world.tick(other.broker_id)
                world.deliver_all()
        world.tick(world.node().leader)
    assert world.node().member(broker_id) is None
    return broker


def take_over(world: World, broker_id: int) -> None:
    """Let the leader die with its registration, and a broker follow it."""
    world.leader().kill()
    world.read_node(broker_id)
    world.elect(broker_id)
    assert world.node().leader == broker_id
