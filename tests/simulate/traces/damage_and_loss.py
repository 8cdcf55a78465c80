"""Traces 10 to 18: damage, gaps, an older ZooKeeper, strangers, deletion, loss, suspicion, settings, flipped bits."""

import random
from dataclasses import replace

from headrace.broker.replication import recovery
from headrace.broker.replication.events import LogChanged, NodeRead, Tick
from headrace.broker.replication.replica import Leading, Stopped
from headrace.broker.replication.state import EpochStart, State

from ..world import ANSWER_LATE, LOST_NEVER, SILENT_MS
from .setting import ended, led, out_of_set, take_over


def trace_10() -> None:
    """A follower has a damaged range, gets a damaged batch, and meets a gap of a mirror and a hole that is none."""
    world = led(records=3)
    third = world.brokers[3]
    third.log.damage(1)
    third.feed(LogChanged(log=third.log.facts()))
    world.tick(3)
    world.read_node(1)
    assert world.node().member(3) is None, "a damaged replica stays in the set"
    world.brokers[2].kill()
    world.brokers[1].kill()
    world.elect(3)
    assert world.node().leader != 3, "a damaged replica leads"
    ended(world)


def trace_10_damaged_member() -> None:
    """A damaged member does not take over, though it is still in the set."""
    world = led(records=2)
    out_of_set(world, 3)
    second = world.brokers[2]
    second.log.damage(0)
    second.feed(LogChanged(log=second.log.facts()))
    world.brokers[1].kill()
    world.elect(2)
    assert world.node().leader == 1, "a damaged replica leads"
    ended(world)


def trace_10_gap() -> None:
    """A mirror's log jumps; followers jump, too."""
    world = led()
    leader = world.leader()
    leader.log.jump(500)
    leader.feed(LogChanged(log=leader.log.facts()))
    world.settle()
    world.produce(1)
    world.settle()
    assert world.brokers[3].log.gaps()
    ended(world)


def trace_10_gap_that_grows() -> None:
    """A mirror's log jumps twice; a follower has jumped over the first part alone."""
    world = led()
    leader = world.leader()
    for end in (500, 900):
        leader.log.jump(end)
        leader.feed(LogChanged(log=leader.log.facts()))
        world.settle()
    world.produce(1)
    ended(world)


def trace_10_hole() -> None:
    """A response lacks a batch in its middle: no gap was announced."""
    world = led()
    world.produce(1)
    world.produce(1)
    world.tick(2)
    world.deliver()
    message = world.messages[-1]
    payload = message.payload
    world.messages[-1] = message._replace(payload=payload._replace(records=payload.records[1:]))  # type: ignore[union-attr]
    world.settle()
    ended(world)


def trace_10_on_the_way() -> None:
    """A batch is damaged on its way, and another one is missing."""
    world = led()
    world.produce(1)
    world.produce(1)
    world.tick(2)
    world.deliver()
    world.corrupt(0)
    world.settle()
    ended(world)


def trace_11() -> None:
    """ZooKeeper is restored from a copy in which 3 is still a member."""
    world = led()
    third = out_of_set(world, 3)
    world.produce(1)
    world.settle()
    third.start()
    world.messages.clear()
    world.restore_zookeeper(1)
    for broker_id in (1, 2):
        replica = world.brokers[broker_id].replica
        assert replica is not None
        assert isinstance(replica.role, Stopped), "a node older than a noted one is obeyed"
    for broker_id in (1, 2):
        world.brokers[broker_id].kill()
        world.brokers[broker_id].start()
        world.read_node(broker_id)
    world.elect(3)
    world.settle()


def trace_11_known_to_be_acknowledged() -> None:
    """A node asks a follower to cut what the follower knows to be acknowledged."""
    world = led(records=3)
    world.settle()
    second = world.brokers[2]
    assert second.replica is not None
    node = world.node()
    forged = State(
        leader=3,
        start_number=1,
        leader_epoch=7,
        members=node.members,
        epochs=(EpochStart(leader_epoch=7, start_offset=10),),
        replicas=node.replicas,
        version=node.version + 9,
    )
    second.feed(NodeRead(state=forged, is_synced=True))
    second.end_cut()
    assert len(second.log.records()) == 3, "acknowledged records were cut"


def trace_12() -> None:
    """A stranger fetches as replica 2, with a high offset, and with one that the leader has."""
    for offset in (10**15, 21):
        world = led()
        world.brokers[3].kill()
        out_of_set(world, 3)
        world.produce(1)
        world.stranger(1, offset)
        world.deliver_all()
        ended(world)


def trace_12_asked_ahead() -> None:
    """A follower asks for more than it has appended, and dies before it appends."""
    world = led()
    out_of_set(world, 3)
    world.produce(1)
    world.tick(2)
    world.deliver()
    second = world.brokers[2]
    second.dies_after = 1
    world.deliver()
    world.deliver_all()
    ended(world)


def trace_12_not_a_replica() -> None:
    """A broker that keeps no copy of the partition fetches: nothing of it is noted."""
    world = led()
    world.tick(2)
    message = world.messages[-1]
    world.messages[-1] = message._replace(payload=replace(message.payload, broker_id=9))  # type: ignore[type-var]
    world.deliver()
    replica = world.brokers[1].replica
    assert replica is not None
    assert isinstance(replica.role, Leading)
    assert 9 not in replica.role.progress


def trace_13() -> None:
    """DeleteRecords is answered, another broker takes over, and the records stay deleted."""
    world = led(records=3)
    world.delete_records(1, 21)
    world.messages.clear()
    world.zookeeper.registered.pop(1)
    world.elect(2)
    ended(world)


def trace_13_beyond() -> None:
    """DeleteRecords beyond the watermark is refused."""
    world = led()
    world.produce(1)
    end = world.leader().log.facts().end_offset
    token = world.delete_records(1, end)
    assert token not in world.open_tokens, "records were deleted that are not acknowledged"
    ended(world)


def trace_14() -> None:
    """All lose their memory. The next epoch begins behind every offset that consumers or mirrors may have read."""
    world = led(records=2)
    world.produce(1)
    world.settle()
    read_to = max(world.checks.seen) + 10
    for broker in world.brokers.values():
        broker.log.flushed = 10  # type: ignore[attr-defined]  # the disks of lists
        broker.cut_power(random.Random(0))
        broker.log.cut(10)
    for broker in world.brokers.values():
        broker.start()
    world.recover()
    world.settle()
    world.produce(world.node().leader)
    world.settle()
    leader = world.leader()
    assert leader.log.records()[-1].position >= read_to, "an offset was used twice"
    assert world.node().lost
    ended(world)


def trace_14_not_due() -> None:
    """A recovery is refused while a member has its life."""
    world = led()
    for broker_id in (1, 2):
        world.brokers[broker_id].cut_power(random.Random(0))
        world.brokers[broker_id].start()
    candidates = [
        recovery.Candidate(broker_id=each.broker_id, lives=each.replica.lives, log=each.log.facts())
        for each in world.brokers.values()
        if each.replica is not None
    ]
    assert not recovery.is_due(world.node(), candidates), "a recovery while a member lives"
    ended(world)


def trace_16() -> None:
    """Members that do not hear a live leader do not take over, not in turns either."""
    world = led()
    for _ in range(5):
        for broker_id in (2, 3):
            world.messages.clear()
            world.brokers[broker_id].suspect()
    assert world.node().leader == 1
    assert world.node().leader_epoch == 1, "takeovers of a live leader"
    ended(world)


def trace_16_cut_off() -> None:
    """A leader that needs a swap and has no ZooKeeper answers no replica, so that another may take over."""
    world = led()
    world.brokers[3].kill()
    world.swap_modes = [LOST_NEVER]
    world.now_ms += SILENT_MS
    world.tick(2)
    world.deliver_all()
    world.brokers[2].feed(Tick(now_ms=world.now_ms))
    world.messages = world.messages[-1:]
    world.deliver()
    payload = world.messages[-1].payload
    assert not hasattr(payload, "records"), "a leader without ZooKeeper answers a replica"
    ended(world)


def trace_16_refused_once() -> None:
    """A refused connection is acted on once per registration: a leader that restarts is not taken over again and again."""
    world = led()
    world.brokers[1].kill()
    world.swap_modes = [LOST_NEVER, LOST_NEVER]
    world.brokers[2].suspect()
    assert world.brokers[2].refusals == {(1, 1): 1}
    ended(world)


def trace_17() -> None:
    """`flush.ack` changes from none to always: nobody's disk is trusted before it has what was acknowledged."""
    world = led()
    for _ in range(2):
        world.produce(1)
        for broker in world.brokers.values():
            broker.flushes.clear()
        for _ in range(3):
            for broker_id in (2, 3):
                world.tick(broker_id)
            while world.messages:
                world.deliver()
    assert len(world.checks.acked) == 3
    world.configure(acks_on_disk=True)
    for broker_id in (2, 3):
        world.tick(broker_id)
        world.deliver_all()
    for broker in world.brokers.values():
        broker.flushes.clear()
        broker.cut_power(random.Random(4))
    for broker in world.brokers.values():
        broker.start()
    for broker_id in (1, 2, 3):
        world.elect(broker_id)
    ended(world)


def trace_17_back() -> None:
    """`flush.ack` changes from always to none: a member by its disk acknowledges by its disk until it is one by its memory."""
    world = led(acks_on_disk=True)
    for broker in world.brokers.values():
        broker.flushes.clear()
    world.swap_modes = [ANSWER_LATE]
    world.configure(acks_on_disk=False)
    world.messages.clear()
    world.produce(1)
    for _ in range(3):
        for broker_id in (2, 3):
            world.tick(broker_id)
        world.deliver_all()
    for broker in world.brokers.values():
        broker.flushes.clear()
        broker.cut_power(random.Random(1))
        broker.start()
    world.messages.clear()
    world.elect(2)
    ended(world)


def trace_17_leader() -> None:
    """With `flush.ack=always` the followers have flushed a record, and the leader has not."""
    world = led(acks_on_disk=True)
    world.produce(1)
    for _ in range(3):
        for broker_id in (2, 3):
            world.tick(broker_id)
            world.deliver_all()
            while world.brokers[broker_id].flushes:
                world.brokers[broker_id].end_flush(0)
            world.deliver_all()
    assert world.open_tokens, "the leader acknowledges what is not on its disk"
    ended(world)


def trace_18() -> None:
    """A bit is flipped in the epoch's bytes of a batch: the list beside the log decides."""
    for number in range(3):
        world = led(records=2)
        take_over(world, 2)
        world.produce(2)
        world.settle()
        for broker in world.brokers.values():
            if broker.is_running:
                broker.log.flip_epoch_bits(number)
        take_over(world, 3)
        world.produce(3)
        world.settle()
        ended(world)
