"""Traces 1 to 9: swaps, lives, sets, takeovers, cuts."""

import random
from dataclasses import replace

from headrace.broker.replication import acknowledging
from headrace.broker.replication.events import NodeRead, SwapAnswered
from headrace.broker.replication.facts import Progress
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.state import Member
from headrace.broker.replication.swaps import Answer, Swap

from ..world import ANSWER_LATE, LOST_LATE, LOST_NEVER, SILENT_MS
from .setting import ended, led, out_of_set, take_over


def trace_01() -> None:
    """1 swaps 3 in, the answer is pending, 1 and 2 acknowledge on, 3 leads from before."""
    world = led()
    third = out_of_set(world, 3)
    world.swap_modes = [ANSWER_LATE]
    third.start()
    while len(world.node().members) == 2:
        world.deliver()
    world.messages.clear()
    world.produce(1)
    world.tick(2)
    for _ in range(6):
        world.deliver()
    take_over(world, 3)
    ended(world)


def trace_02() -> None:
    """2 asks for a takeover, is killed, restarts, reads the old node, follows and acknowledges; then the old swap lands."""
    world = led()
    world.zookeeper.registered.pop(1)
    world.swap_modes = [LOST_LATE]
    world.brokers[2].suspect()
    world.brokers[2].kill()
    world.brokers[2].start()
    world.zookeeper.registered[1] = 1
    world.settle()
    world.produce(1)
    world.settle()
    before = world.node()
    world.land_late()
    assert world.node() == before, "a swap of a dead process has landed"
    ended(world)


def trace_03() -> None:
    """A swap that got no answer is settled by reading a server that lags; it lands later."""
    world = led()
    world.zookeeper.registered.pop(1)
    world.swap_modes = [LOST_LATE]
    world.brokers[2].suspect()
    world.deliver_all()
    world.zookeeper.registered[1] = 1
    world.read_node(2)
    world.settle(1)
    world.produce(1)
    for _ in range(2):
        for broker_id in (2, 3):
            world.brokers[broker_id].feed(NodeRead(state=world.node(), is_synced=False))
            if not world.brokers[2].replica or world.brokers[2].replica.undecided:
                break
            world.tick(broker_id)
            world.deliver_all()
    replica = world.brokers[2].replica
    assert replica is not None
    assert replica.undecided or world.node().leader == 2, "a swap that may land was given up"
    world.land_late()
    ended(world)


def trace_04() -> None:
    """1 returns with an older, longer log and takes over before it has cut; the start of the epoch between was lower."""
    world = led()
    world.produce(1)
    world.produce(1)
    world.brokers[1].kill()
    world.messages.clear()
    world.elect(3)
    world.produce(3)
    world.brokers[1].start()
    world.messages.clear()
    world.brokers[3].kill()
    world.zookeeper.registered.pop(3)
    assert len(world.brokers[1].log.records()) == 3, "the cut is still to come"
    world.elect(1)
    assert world.node().leader == 1
    world.produce(1)
    ended(world)


def trace_04_duplicate() -> None:
    """A producer sends again what no member has yet: it waits as the first request does."""
    world = led()
    world.produce(1, 50)
    world.produce(1, 50)
    assert len(world.open_tokens) == 2, "a duplicate is acknowledged before its first"
    ended(world)


def trace_04_watermark() -> None:
    """A follower that was in the set fetches from an earlier offset in a new life: the watermark stays."""
    world = led(records=2)
    third = out_of_set(world, 3)
    world.produce(1)
    world.settle()
    third.start()
    world.messages.clear()
    world.swap_modes = [LOST_NEVER]
    replica = third.replica
    assert replica is not None
    leader = world.brokers[1]
    assert leader.replica is not None
    wanted = replace(world.node(), members=(*world.node().members, Member(broker_id=3, life=replica.lives.memory)))
    leader.feed(SwapAnswered(swap=Swap(version=world.node().version, wanted=wanted, fence=None), answer=Answer.PASSED))
    undecided = Swap(version=world.node().version, wanted=wanted, fence=None)
    leader.replica = replace(leader.replica, undecided=(undecided,))
    before = world.visible(leader)
    world.produce(1)
    world.tick(2)
    world.deliver_all()
    after = world.visible(leader)
    assert before is not None
    assert after is not None
    assert after >= before, "the watermark goes back"


def trace_05() -> None:
    """3 loses power at 1 of 3 records, fetches 2 again, stops cleanly, and is not trusted as the member that it was."""
    world = led(records=3)
    third = world.brokers[3]
    third.log.flushed = 10  # type: ignore[attr-defined]  # the disk of a list
    third.flushes.clear()
    third.cut_power(random.Random(2))
    third.start()
    world.messages.clear()
    third.stop()
    third.start()
    world.messages.clear()
    world.leader().kill()
    world.zookeeper.registered.pop(1)
    world.elect(3)
    assert world.node().leader == 1, "a member that has lost its memory leads"
    ended(world)


def trace_05_counted() -> None:
    """2 acknowledges three records, loses power, comes back with one, and its old acknowledgement does not count for it."""
    world = led()
    second = world.brokers[2]
    out_of_set(world, 3)
    assert second.replica is not None
    second.flushes.clear()
    second.cut_power(random.Random(0))
    second.start()
    world.messages.clear()
    world.produce(1)
    world.tick(2)
    world.deliver_all()
    world.read_node(2)
    member = world.node().member(2)
    assert second.replica is not None
    assert member is not None
    if member.life not in second.replica.lives:
        assert not world.open_tokens or world.visible(world.brokers[1]) is not None
    leader = world.brokers[1].replica
    assert leader is not None
    progress = Progress(
        lives=Lives(memory="memory:other", disk="disk:other"), written_offset=99, flushed_offset=99, log_start_offset=0,
        is_damaged=False, heard_ms=0,
    )  # fmt: skip
    assert acknowledging.reached(member, progress, acks_on_disk=False) == -1, "another life counts"
    ended(world)


def trace_05_late_answer() -> None:
    """An answer of the leader of before arrives after a new epoch has begun."""
    world = led()
    world.produce(1)
    world.tick(2)
    world.deliver()
    late = [each for each in world.messages if each.to == 2]
    assert late
    world.messages.clear()
    world.zookeeper.registered.pop(1)
    world.elect(3)
    world.read_node(2)
    world.settle()
    world.messages = late
    before = world.brokers[2].log.records()
    world.deliver()
    assert world.brokers[2].log.records() == before, "an answer of an earlier epoch was appended"
    ended(world)


def trace_06() -> None:
    """A leader loses a tail that was not acknowledged and that a member has, restarts, and writes other bytes."""
    world = led()
    world.produce(1)
    world.tick(2)
    world.deliver_all()
    world.brokers[1].cut_power(random.Random(1))
    world.brokers[1].start()
    world.messages.clear()
    world.elect(1)
    world.produce(1)
    ended(world)


def trace_06_joins() -> None:
    """A replica that lacks acknowledged records asks to come in."""
    world = led()
    third = out_of_set(world, 3)
    for _ in range(8):
        world.produce(1)
    world.settle()
    third.start()
    world.deliver()
    assert world.node().member(3) is None, "a replica comes in without everything"
    ended(world)


def trace_07() -> None:
    """The set never becomes one: its only member could lose everything acknowledged with its power."""
    world = led()
    out_of_set(world, 3)
    world.brokers[2].kill()
    world.zookeeper.registered.pop(2)
    for _ in range(3):
        world.now_ms += SILENT_MS
        world.tick(1)
    assert len(world.node().members) == 2, "the set is below min.insync.replicas"
    world.produce(1)
    world.settle()
    ended(world)


def trace_07_shown() -> None:
    """A new leader that knows an older watermark shows consumers nothing until it has caught up."""
    world = led()
    world.produce(1)
    for broker_id in (2, 3):
        world.tick(broker_id)
        for _ in range(3):
            world.deliver()
        world.messages = [each for each in world.messages if not hasattr(each.payload, "records")]
        while world.messages:
            world.deliver()
            world.messages = [each for each in world.messages if not hasattr(each.payload, "records")]
    assert len(world.checks.acked) == 2
    world.brokers[1].kill()
    world.brokers[2].suspect()
    ended(world)


def trace_08() -> None:
    """The topic is deleted and made anew while a replica is down."""
    world = led(records=3)
    world.brokers[3].kill()
    world.recreate_topic()
    world.brokers[3].start()
    assert world.brokers[3].log.facts().end_offset == 0, "a folder of the deleted topic is the new topic's"
    world.elect(3)
    world.settle()
    ended(world)


def trace_09() -> None:
    """A flush and a waiter from before a cut finish after it."""
    world = led(acks_on_disk=True)
    world.produce(1)
    world.produce(1)
    run = world.brokers[1].flushes[-1]
    world.zookeeper.registered.pop(1)
    world.messages.clear()
    world.elect(2)
    first = world.brokers[1]
    assert len(first.log.records()) == 1
    first.flushes.append(run)
    world.produce(2)
    world.deliver_all()
    world.tick(1)
    world.deliver_all()
    while first.flushes:
        first.end_flush(-1)
        world.deliver_all()
        break
    replica = first.replica
    assert replica is not None
    assert replica.log.flushed_offset <= first.log.physically_flushed(), "a flush from before the cut counts"
    ended(world)


def trace_09_waiter() -> None:
    """A producer waits at a leader that loses the leadership and gets it back: what it waited for was cut."""
    world = led()
    world.produce(1)
    token = max(world.open_tokens)
    world.zookeeper.registered.pop(1)
    world.messages.clear()
    world.elect(2)
    assert token not in world.open_tokens, "a producer still waits at a leader of before"
    ended(world)
