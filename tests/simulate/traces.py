"""The eighteen traces of decision 66, each a scenario that plays one history and says what must hold.

They raise when a promise is broken. `test_safeguards.py` shows that each does when its rule is off.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from headrace.broker.replication import acknowledging, group_epoch, recovery
from headrace.broker.replication.events import LogChanged, NodeRead, SwapAnswered, Tick
from headrace.broker.replication.facts import Progress
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.replica import Leading, Stopped
from headrace.broker.replication.state import EpochStart, Member, State
from headrace.broker.replication.swaps import Answer, Swap

from .broker import SimulatedBroker
from .world import ANSWER_LATE, LOST_LATE, LOST_NEVER, SILENT_MS, World


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


def trace_15(seed: int = 0) -> None:
    """Of two coordinators of a group only one commits."""
    chance = random.Random(seed)
    zookeeper = World().zookeeper
    held: dict[str, int] = {}
    on_the_way: list[tuple[str, group_epoch.GroupCommit]] = []
    for _ in range(30):
        name = chance.choice(("first", "second"))
        match chance.choice(("lead", "commit", "commit", "arrive", "arrive")):
            case "lead":
                held[name] = zookeeper.groups["g"] = group_epoch.raised(zookeeper.groups.get("g", 0))
            case "commit" if name in held:
                on_the_way.append((name, group_epoch.commit(held[name], {"events-0": chance.randrange(100)})))
            case "arrive" if on_the_way:
                name, one = on_the_way.pop(chance.randrange(len(on_the_way)))
                if one.held_epoch is None or one.held_epoch == zookeeper.groups["g"]:
                    zookeeper.committed.update(one.offsets)
                    newest = max(held, key=lambda each: held[each])
                    assert name == newest, "an earlier coordinator has committed"
    if not seed:
        for number in range(1, 20):
            trace_15(number)


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


def trace_16_refused_once() -> None:
    """A refused connection is acted on once per registration: a leader that restarts is not taken over again and again."""
    world = led()
    world.brokers[1].kill()
    world.swap_modes = [LOST_NEVER, LOST_NEVER]
    world.brokers[2].suspect()
    assert world.brokers[2].refusals == {(1, 1): 1}
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


def trace_04_duplicate() -> None:
    """A producer sends again what no member has yet: it waits as the first request does."""
    world = led()
    world.produce(1, 50)
    world.produce(1, 50)
    assert len(world.open_tokens) == 2, "a duplicate is acknowledged before its first"
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


TRACES: dict[str, Callable[[], None]] = {
    name.removeprefix("trace_"): value for name, value in list(globals().items()) if name.startswith("trace_")
}
