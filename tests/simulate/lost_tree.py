"""ZooKeeper loses everything, and an operator brings the partition back: half of a random run, the loss, and the other half.

All processes end, one of them perhaps with its power, its disk, or for longer. The tree that is imported has the marker that
`headrace zookeeper import` writes; start numbers begin again.
"""

import random
from typing import NamedTuple

from headrace.broker.replication import restoring
from headrace.broker.replication.events import Recover
from headrace.broker.replication.recovery import Candidate, Plan
from headrace.broker.replication.replica import Leading, Stopped
from headrace.broker.replication.state import State

from .actions import ACTIONS, Run
from .world import BROKERS, World

NOTHING, POWER, DISK, TWO_DISKS, AWAY = "nothing", "power", "disk", "two disks", "away"
ALSO = (NOTHING, NOTHING, POWER, DISK, TWO_DISKS, AWAY)
"""What one of the brokers loses beside ZooKeeper, or two of them."""


class Outcome(NamedTuple):
    world: World
    also: str
    plan: Plan


def lose_tree(world: World, also: str = NOTHING, broker_id: int = 1, chance: random.Random | None = None) -> None:
    """Lose the tree, end every process, import the marker, and start the brokers again."""
    for broker in world.brokers.values():
        if also == POWER and broker.broker_id == broker_id:
            broker.cut_power(chance or random.Random(0))
        else:
            broker.kill()
    if also in (DISK, TWO_DISKS):
        world.brokers[broker_id].wipe()
    if also == TWO_DISKS:
        world.brokers[broker_id % len(BROKERS) + 1].wipe()
    world.checks.given_up += world.node().lost
    world.messages.clear()
    world.late_swaps.clear()
    world.swap_modes.clear()
    world.zookeeper.losses += 1
    world.zookeeper.starts.clear()
    world.zookeeper.registered.clear()
    world.zookeeper.history[world.topic_id] = [State(replicas=BROKERS, is_restored=True)]
    for broker in world.brokers.values():
        broker.dies_after = None
        if not (also == AWAY and broker.broker_id == broker_id):
            broker.start()
            world.read_node(broker.broker_id)


def recover(world: World) -> Plan:
    """What `headrace partition recover --execute` does."""
    node = world.node()
    candidates = [
        Candidate(
            broker_id=each.broker_id,
            lives=each.replica.lives,
            log=each.log.facts(),
            high_watermark=each.replica.high_watermark,
            noted=each.replica.noted,
            obeys=None if isinstance(each.replica.role, Stopped) or each.replica.node is None else each.replica.node.version,
            min_insync_replicas=each.replica.min_insync_replicas,
        )
        for each in world.brokers.values()
        if each.replica is not None
    ]
    assert restoring.is_due(node, candidates)
    plan = restoring.plan(node, [one for one in candidates if restoring.is_final(node, one)])
    chosen = world.brokers[plan.chosen]
    if plan.doubt is not None:
        world.checks.deleted_to = min(world.checks.deleted_to, plan.log_start_offset)
    chosen.feed(
        Recover(
            start_offset=plan.start_offset,
            log_start_offset=plan.log_start_offset,
            restored=node,
            base=plan.base,
            leader_epoch=plan.leader_epoch,
        )
    )
    assert chosen.replica is not None
    assert isinstance(chosen.replica.role, Leading), chosen.replica.role
    for broker_id in BROKERS:
        world.read_node(broker_id)
    return plan


def play_loss(run: Run, seed: int) -> Outcome | None:
    """Play half of a run, the loss and the recovery, and the other half. None for a run with damage or another loss of the tree.

    Raises `Wrong`, or whatever the machine raises.
    """
    if {"restore", "damage", "wipe"} & {action.name for action in run.actions}:
        return None
    chance = random.Random(seed)
    world = World(acks_on_disk=run.acks_on_disk)
    world.start_all()
    world.elect(1)
    world.produce(1)
    world.settle(2)
    half = len(run.actions) // 2
    for action in run.actions[:half]:
        ACTIONS[action.name](world, action.a, action.b)
    also = chance.choice(ALSO)
    lose_tree(world, also, chance.choice(BROKERS), chance)
    plan = recover(world)
    if plan.doubt is not None and also != AWAY:
        return Outcome(world, also, plan)  # what acknowledged it is gone: any tail may be in its place
    for action in run.actions[half:]:
        ACTIONS[action.name](world, action.a, action.b)
    world.heal()
    world.checks.at_the_end()
    return Outcome(world, also, plan)
