"""What a run is: how many brokers, which settings, and what befalls it. Each run has few kinds of faults, drawn from its seed.

A fault is a name, a time and two numbers, so that a list stays playable when faults are removed from it.
"""

import random
from collections.abc import Collection
from typing import NamedTuple

RUN_MS = 8_000
"""How long faults come, after the topic was made. Then all is healed."""
MOST_TARGETS = 6
RETENTION_BYTES = 16_384


class Fault(NamedTuple):
    """`target` chooses the broker: 0 to 2 by its number, 3 to 5 the leader of a partition. `size`, 0 to 999: how long or much."""

    name: str
    at_ms: int
    target: int
    size: int


class Plan(NamedTuple):
    """What a seed gives."""

    seed: int
    settings: tuple[str, ...]
    config: tuple[tuple[str, str], ...]
    faults: tuple[Fault, ...]
    brokers: int = 3
    """With four, each partition has its three replicas on some of them."""
    has_short_topic: bool = False
    """Whether a topic is made, written, read and deleted, again and again under one name."""
    has_strays: bool = False
    """Whether readers sometimes ask any broker, as clients do whose metadata is old."""

    @property
    def retention_bytes(self) -> int | None:
        found = dict(self.config).get("retention.bytes")
        return None if found is None else int(found)

    @property
    def is_damaged(self) -> bool:
        """Whether one broker's disk returns other bytes than were written."""
        return any(fault.name == "damage" for fault in self.faults)


KINDS = {
    "kill": 3,
    "kill all": 0.5,
    "power": 3,
    "last power": 1,
    "remake": 2,
    "stop": 1,
    "die soon": 3,
    "pause": 3,
    "one way": 1,
    "alone": 2,
    "from clients": 1,
    "from zookeeper": 1,
    "away": 0.7,
    "lag": 2,
    "expire": 2,
    "slow disk": 1,
    "slow network": 1,
    "clock": 1,
    "move": 3,
    "elect": 1,
    "delete records": 2,
    "damage": 2,
    "recover": 1,
    "late swap": 1,
    "orphaned swap": 2,
    "fatal swap": 1,
    "unanswered swap": 2,
    "newcomer": 2,
}
"""By name, how often one comes beside others."""
RARE = {"move": 0.25, "delete records": 0.25, "damage": 0.2, "recover": 0.2, "elect": 0.25}
RARE |= {"late swap": 0.1, "orphaned swap": 0.2, "fatal swap": 0.15, "unanswered swap": 0.2, "newcomer": 0.2}
RARE |= {"last power": 0.15, "remake": 0.15}
POWER = ("power", "last power")
OFTEN = 0.35


def drawn(seed: int, must: Collection[str] = ()) -> Plan:
    """Return the plan of a seed: some kinds of faults, not all, so that each run goes deep somewhere. `must`: kinds that it has,
    "short topic", "retention", "strays" and "power of one" among them.
    """
    chance = random.Random(f"plan {seed}")
    kinds = [name for name in KINDS if (chance.random() < RARE.get(name, OFTEN)) | (name in must)] or ["kill"]
    weights = [KINDS[name] * (3 if name in must else 1) for name in kinds]
    count = chance.randint(3, 14)
    power_target = chance.randrange(3)
    damage_target = chance.randrange(3)
    is_power_of_one = (chance.random() < 0.3) | ("power of one" in must)
    has_retention = (chance.random() < 0.15) | ("retention" in must)
    has_short_topic = (chance.random() < 0.2) | ("short topic" in must) | ("remake" in kinds)
    has_strays = (chance.random() < 0.3) | ("strays" in must)
    asks_peers = chance.random() < 0.5
    segment_bytes = chance.choice(("4096", "16384", "1048576"))
    flushes = chance.random() < 0.3
    faults = [
        Fault(name, chance.randrange(RUN_MS), chance.randrange(MOST_TARGETS), chance.randrange(1_000))
        for name in chance.choices(kinds, weights, k=count)
    ]
    names = {fault.name for fault in faults}
    if "damage" in names:
        # On one broker only: what two of three replicas have damaged, or lost, is lost.
        faults = [one._replace(target=damage_target) if one.name == "damage" else one for one in faults]
        segment_bytes, is_power_of_one = "4096", False
    # Power cuts lose nothing where acknowledgements wait for the disk, or where one broker alone loses its power.
    has_power = not names.isdisjoint((*POWER, "orphaned swap"))
    if has_power and is_power_of_one:
        faults = [one._replace(target=power_target) if one.name in POWER else one for one in faults]
        # An orphaned swap of an odd size class cuts the power of any broker.
        faults = [one._replace(size=one.size // 4 * 4 + one.size % 2) if one.name == "orphaned swap" else one for one in faults]
    config = {"segment.bytes": segment_bytes}
    if (has_power and not is_power_of_one) or (flushes and not is_power_of_one):
        config["flush.ack"] = "always"
    settings = []
    if has_retention:
        config |= {"retention.bytes": str(RETENTION_BYTES), "segment.bytes": "4096"}
        settings.append("log.retention.check.interval.ms=700")
    if "damage" in names:
        settings.append("log.scrub.interval.ms=1500")
    if asks_peers:
        settings.append("topic.creation.wait.ms=1000")
    return Plan(
        seed,
        tuple(settings),
        tuple(sorted(config.items())),
        tuple(sorted(faults, key=lambda one: one.at_ms)),
        brokers=4 if "move" in names else 3,
        has_short_topic=has_short_topic,
        has_strays=has_strays,
    )


def told(plan: Plan) -> str:
    return "\n".join(f"  {one.at_ms:6} ms {one.name}, broker {one.target}, size {one.size}" for one in plan.faults)
