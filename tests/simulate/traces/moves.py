"""Trace 19 and three more: partitions that move, and what the search found when it began to move them."""

from headrace.broker.replication.events import HandedOver

from ..world import SILENT_MS
from .setting import ended, led, out_of_set, take_over


def trace_19() -> None:
    """The partition moves from its leader to another broker, which takes over; the folder of the first goes; it comes back."""
    world = led()
    world.reassign((3,))
    for broker_id in world.brokers:
        world.read_node(broker_id)
    for _ in range(4):
        world.tick(world.node().leader)
        world.deliver_all()
        world.settle()
    assert (world.node().leader, world.node().replicas, world.node().targets) == (3, (3,), ())
    world.produce(3)
    for broker_id in (1, 2):
        world.read_node(broker_id)
        world.remove_folder(broker_id)
        assert world.brokers[broker_id].log.facts().end_offset == 0
    ended(world)


def trace_19_folder() -> None:
    """A replica that follows keeps its folder, also while the partition is on its way from it."""
    world = led()
    world.brokers[2].kill()
    world.reassign((2, 3))
    for broker_id in (1, 3):
        world.read_node(broker_id)
        world.remove_folder(broker_id)
    assert world.brokers[3].log.facts().end_offset > 0
    ended(world)


def trace_19_too_early() -> None:
    """The only target has no record yet when the leader looks."""
    world = led()
    out_of_set(world, 3)
    world.produce(1)
    world.settle()
    world.brokers[3].wipe()
    world.reassign((1, 3))
    for broker_id in (1, 2):
        world.read_node(broker_id)
    world.tick(1)
    assert world.node().replicas == (1, 2, 3), "the move has ended without its new replica"
    ended(world)


def trace_19_handed_over() -> None:
    """A request to take over that comes from an earlier epoch changes nothing."""
    world = led()
    take_over(world, 2)
    epoch = world.node().leader_epoch
    world.brokers[3].feed(HandedOver(leader_epoch=epoch - 1))
    assert world.node().leader == 2
    world.brokers[3].feed(HandedOver(leader_epoch=epoch))
    assert world.node().leader == 3
    ended(world)


def trace_13_comes_in() -> None:
    """Records are deleted by the members; then a replica comes in that still has them, and leads."""
    world = led(records=3)
    third = out_of_set(world, 3)
    end = world.brokers[1].log.facts().end_offset
    world.delete_records(1, end)
    world.settle()
    assert world.checks.deleted_to == end
    world.now_ms += SILENT_MS
    third.start()
    while world.node().member(3) is None:
        world.deliver()
        if not world.messages:
            world.tick(3)
    world.messages.clear()
    take_over(world, 3)
    ended(world)
