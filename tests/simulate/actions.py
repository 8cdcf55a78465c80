"""A run as a list of actions: drawn from a seed, played on a world, and shrunk when it fails.

An action is a name and two numbers, which choose among what is there. So a list stays playable when actions are removed from it.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.broker.replication.events import FollowerLost, FollowersHeard, HandedOver, Leave, LogChanged

from .broker import SimulatedBroker
from .logs import ListLog, SimulatedLog
from .world import BROKERS, SWAP_MODES, World


class Action(NamedTuple):
    name: str
    a: int
    b: int


def _broker(world: World, number: int) -> SimulatedBroker:
    return world.brokers[BROKERS[number % len(BROKERS)]]


def _leading(world: World, number: int) -> SimulatedBroker:
    leaders = world.leaders()
    return leaders[number % len(leaders)] if leaders else _broker(world, number)


def _deliver_some(world: World, a: int, b: int) -> None:
    for _ in range(b % 8):
        world.deliver()


def _produce(world: World, a: int, b: int) -> None:
    world.produce(_leading(world, a).broker_id)


def _retry(world: World, a: int, b: int) -> None:
    world.retry(_leading(world, a).broker_id, b)


def _kill(world: World, a: int, b: int) -> None:
    _broker(world, a).kill()


def _die_soon(world: World, a: int, b: int) -> None:
    broker = _leading(world, a) if b % 2 else _broker(world, a)
    if broker.is_running:
        broker.dies_after = b % 5


def _start(world: World, a: int, b: int) -> None:
    broker = _broker(world, a)
    if not broker.is_running and not broker.log.facts().is_damaged:
        broker.start()


def _stop(world: World, a: int, b: int) -> None:
    _broker(world, a).stop()


def _power(world: World, a: int, b: int) -> None:
    _broker(world, a).cut_power(random.Random(b))


def _delete(world: World, a: int, b: int) -> None:
    broker = _leading(world, a)
    ends = [each.next_offset for each in broker.log.records()]
    if ends:
        world.delete_records(broker.broker_id, ends[b % len(ends)])


def _damage(world: World, a: int, b: int) -> None:
    if not any(each.log.facts().is_damaged for each in world.brokers.values()):
        broker = _broker(world, a)
        if broker.log.damage(b) and broker.replica is not None:
            broker.feed(LogChanged(log=broker.log.facts()))


def _gap(world: World, a: int, b: int) -> None:
    """A mirror's jump at the leader: the log continues further on."""
    for leader in world.leaders():
        end = leader.log.facts().end_offset
        if world.visible(leader) == end and leader.broker_id == world.node().leader:
            leader.log.jump(end + 7)
            leader.feed(LogChanged(log=leader.log.facts()))
            return


def _empty_folder(world: World, a: int, b: int) -> None:
    """One stopped broker gets an empty folder."""
    broker = _broker(world, a)
    if (
        not broker.is_running
        and not world.checks.is_restored
        and all(each.is_running for each in world.brokers.values() if each is not broker)
    ):
        broker.wipe()


def _stranger(world: World, a: int, b: int) -> None:
    """A fetch in the name of replica 2. That an empty log is claimed in its name, only the peer's certificate can refute."""
    leader = _leading(world, a)
    facts = leader.log.facts()
    if facts.end_offset > facts.log_start_offset:
        world.stranger(leader.broker_id, (10**15, facts.end_offset, facts.end_offset, facts.end_offset + 1 + b % 50)[b % 4])


def _restore(world: World, a: int, b: int) -> None:
    if not world.checks.is_restored and all(each.is_running for each in world.brokers.values()):
        world.restore_zookeeper(1 + b % 3)


def _flip(world: World, a: int, b: int) -> None:
    _broker(world, a).log.flip_epoch_bits(b)


def _lose_follower(world: World, a: int, b: int) -> None:
    """A connection ends, whether its process lives or not."""
    _leading(world, a).feed(FollowerLost(broker_id=BROKERS[b % 3]))


def _reassign(world: World, a: int, b: int) -> None:
    """Move the partition, or end the move."""
    ids = random.Random(b).sample(BROKERS, 1 + a % 3)
    world.reassign(None if b % 4 == 0 else tuple(ids))


def _hand_over(world: World, a: int, b: int) -> None:
    """A leader, or an operator, asks a broker to lead."""
    broker = _broker(world, a)
    if broker.replica is not None:
        broker.feed(HandedOver(leader_epoch=broker.replica.noted.leader_epoch - (b % 5 == 0), leader_stops=b % 3 == 0))


def _leave(world: World, a: int, b: int) -> None:
    """A process is about to stop."""
    _broker(world, a).feed(Leave())


def _hear(world: World, a: int, b: int) -> None:
    """A leader takes followers for alive, whether they are or not."""
    heard = frozenset(one for at, one in enumerate(BROKERS) if b >> at & 1)
    _leading(world, a).feed(FollowersHeard(broker_ids=heard, now_ms=world.now_ms))


def _consume_time(world: World, a: int, b: int) -> None:
    world.now_ms += 11_000
    world.tick(BROKERS[a % 3])


ACTIONS: dict[str, Callable[[World, int, int], None]] = {
    "tick": lambda world, a, b: world.tick(BROKERS[a % 3]),
    "deliver": lambda world, a, b: world.deliver(0),
    "deliver any": lambda world, a, b: world.deliver(b),
    "deliver all": _deliver_some,
    "produce": _produce,
    "retry": _retry,
    "flush": lambda world, a, b: _broker(world, a).end_flush(b),
    "end cut": lambda world, a, b: _broker(world, a).end_cut(),
    "read node": lambda world, a, b: world.read_node(BROKERS[a % 3]),
    "suspect": lambda world, a, b: _broker(world, a).suspect(),
    "start": _start,
    "kill": _kill,
    "die soon": _die_soon,
    "stop": _stop,
    "power": _power,
    "lose message": lambda world, a, b: world.lose(b),
    "swap answer": lambda world, a, b: world.swap_modes.append(SWAP_MODES[b % len(SWAP_MODES)]),
    "land late": lambda world, a, b: world.land_late(b),
    "read old node": lambda world, a, b: world.read_node(BROKERS[a % 3], back=1 + b % 2),
    "expire": lambda world, a, b: world.expire_registration(BROKERS[a % 3]),
    "silence": _consume_time,
    "delete records": _delete,
    "corrupt": lambda world, a, b: world.corrupt(b),
    "damage": _damage,
    "gap": _gap,
    "wipe": _empty_folder,
    "stranger": _stranger,
    "configure": lambda world, a, b: world.configure(acks_on_disk=bool(b % 2)),
    "flip": _flip,
    "recreate": lambda world, a, b: world.recreate_topic(),
    "restore": _restore,
    "recover": lambda world, a, b: world.recover(),
    "lose follower": _lose_follower,
    "reassign": _reassign,
    "remove folder": lambda world, a, b: world.remove_folder(BROKERS[a % 3]),
    "hand over": _hand_over,
    "leave": _leave,
    "hear": _hear,
}
ALWAYS: dict[str, float] = {
    "tick": 8,
    "deliver": 14,
    "deliver all": 8,
    "produce": 8,
    "flush": 3,
    "end cut": 4,
    "read node": 4,
    "suspect": 6,
    "start": 5,
}
FAULTS = {
    "deliver any": 4, "retry": 3, "kill": 2, "die soon": 3, "stop": 1, "power": 2, "lose message": 2, "swap answer": 4,
    "land late": 2, "read old node": 2, "expire": 2, "silence": 2, "delete records": 1.5, "corrupt": 2, "damage": 0.3, "gap": 0.5,
    "wipe": 0.5, "stranger": 1, "configure": 1, "flip": 1, "recreate": 0.3, "restore": 0.3, "recover": 1,
    "lose follower": 2, "hear": 2, "reassign": 2, "remove folder": 2, "hand over": 2,
    "leave": 1,
}  # fmt: skip
RARE = {"restore": 0.06, "damage": 0.15, "recreate": 0.15, "wipe": 0.2}
"""How many runs have them; other faults are in 45 % of the runs."""
SHORTEST, LONGEST = 30, 160


class Run(NamedTuple):
    """What a seed gives: the settings and the actions."""

    acks_on_disk: bool
    actions: tuple[Action, ...]


def drawn(seed: int, faults: Sequence[str] = ()) -> Run:
    """Return the run of a seed. Some faults are in it, most are not, so that each run goes deep somewhere.

    `faults`: names of those that it must have; then it has few others.
    """
    chance = random.Random(seed)
    share = 0.15 if faults else 0.45
    weights = {**ALWAYS} | {
        name: weight for name, weight in FAULTS.items() if chance.random() < min(share, RARE.get(name, 1)) or name in faults
    }
    names, shares = list(weights), list(weights.values())
    count = chance.randint(SHORTEST, LONGEST)
    chosen = chance.choices(names, shares, k=count)
    acks_on_disk = chance.random() < 0.3
    return Run(acks_on_disk, tuple(Action(name, chance.randrange(1 << 16), chance.randrange(1 << 16)) for name in chosen))


def play(run: Run, make_log: Callable[[int], SimulatedLog] = lambda _: ListLog()) -> World:
    """Play a run to its end, heal, and check. Raises `Wrong`, or whatever the machine raises."""
    world = World(make_log=make_log, acks_on_disk=run.acks_on_disk)
    world.start_all()
    world.elect(1)
    world.produce(1)
    world.settle(2)
    for action in run.actions:
        ACTIONS[action.name](world, action.a, action.b)
    world.heal()
    world.checks.at_the_end()
    return world


def failure_of(run: Run, make_log: Callable[[int], SimulatedLog] = lambda _: ListLog()) -> str | None:
    """Return what is wrong with a run, None when nothing is."""
    try:
        play(run, make_log)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def shrunk(run: Run, fails: Callable[[Run], bool], *, most_plays: int = 2_000) -> Run:
    """Return a run that still fails, with as few actions as removing some of them can give."""
    actions, plays = list(run.actions), 0
    size = max(1, len(actions) // 2)
    while size:
        at = 0
        while at < len(actions) and plays < most_plays:
            fewer = actions[:at] + actions[at + size :]
            plays += 1
            if fails(run._replace(actions=tuple(fewer))):
                actions = fewer
            else:
                at += size
        size //= 2
    return run._replace(actions=tuple(actions))


def told(actions: Sequence[Action]) -> str:
    return "\n".join(f"  {each.name} {each.a} {each.b}" for each in actions)
