"""Trace 11, continued: the tree is lost, or comes back older, and an operator recovers the partition (decision 88)."""

from headrace.broker.replication.replica import Stopped

from ..lost_tree import DISK, lose_tree, recover
from .setting import ended, led, out_of_set, take_over


def trace_11_lost_tree() -> None:
    """All is there, though the longest log is that of a replica which left the set in an earlier epoch."""
    world = led(records=3)
    first = world.brokers[1]
    world.produce(1)  # its followers do not get it
    first.kill()
    world.messages.clear()
    take_over(world, 2)
    world.produce(2)
    world.settle()
    lose_tree(world)
    assert [each for each in world.brokers.values() if not isinstance(each.replica and each.replica.role, Stopped)] == []
    plan = recover(world)
    assert (plan.doubt, plan.chosen) == (None, 2)
    world.settle()
    world.produce(2)
    ended(world)


def trace_11_lost_tree_and_disk() -> None:
    """The leader's disk is lost, too: a member has everything."""
    world = led(records=3)
    lose_tree(world, DISK, 1)
    world.elect(1)
    assert world.leaders() == [], "an empty replica leads by a node that was imported"
    plan = recover(world)
    assert (plan.doubt, plan.chosen) == (None, 2)
    ended(world)


def trace_11_lost_twice() -> None:
    """The second loss is as the first: versions and epochs begin later again."""
    world = led(records=2)
    for _ in range(2):
        lose_tree(world)
        assert recover(world).doubt is None
        world.settle()
        world.produce(world.node().leader)
        world.settle()
    ended(world)


def trace_11_older_and_recovered() -> None:
    """ZooKeeper is restored from a copy in which 3 is still a member. The recovery swaps on that node."""
    world = led()
    third = out_of_set(world, 3)
    world.produce(1)
    world.settle()
    third.start()
    world.messages.clear()
    world.restore_zookeeper(1)
    assert recover(world).doubt is None
    world.checks.is_restored = False
    ended(world)


def trace_11_older_and_obeyed() -> None:
    """The same, and 3, which was away, leads by the older node until the recovery."""
    world = led()
    third = out_of_set(world, 3)
    world.produce(1)
    world.settle()
    world.messages.clear()
    world.restore_zookeeper(1)
    for broker in world.brokers.values():
        broker.kill()
        broker.start()
    world.elect(3)
    assert world.leaders() == [third]
    plan = recover(world)
    assert plan.chosen != 3, "the others have what was acknowledged before ZooKeeper went back"
    assert plan.doubt is not None
    assert "broker 3 obeyed the older node" in plan.doubt
    world.checks.is_restored = False
    ended(world)
