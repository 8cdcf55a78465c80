"""The measures, in the order in which each number of topics goes through them. A measure returns figures by name.

Another process's figures are another `Measure` in `ALL`.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.client.fetch.fetched import TopicPartition

from ..harness.proc_meters import cpu_s
from . import of_broker, of_loggers
from .pulse import Pulse
from .world import World

SETTLE_S = 10.0
LONGEST_SETTLING_S = 300.0
QUIET = 0.02
QUIET_SLICES = 4
"""After topics have appeared, positions of the audit are written to ZooKeeper, and windows are judged when deadlines pass (20 s
of an application). It is rest when every process took less than `QUIET` of a core so many times one after another.
"""

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One measure. `units`: figure → unit; `%` are shares of one core."""

    name: str
    title: str
    run: Callable[[World, int, float], Figures]
    """Takes the world, the number of topics to reach, and how long rest is watched (s)."""
    units: Mapping[str, str]


def grow(world: World, topics: int, rest_s: float) -> Figures:
    """Let topics appear on live and fill them, while `pulse` is written to. The clock starts when live has all of them."""
    before_s = cpu_s([world.mirror.pid])
    with Pulse(world) as pulse:
        new = world.grow(topics)
        began = time.monotonic()
        filling = threading.Thread(target=world.fill, args=(new,))
        filling.start()
        listed_s = world.await_(world.is_listed, "the offline cluster to list all topics")
        filling.join()
        world.await_(world.is_level, "all topics to be mirrored", every_s=0.5)
        mirrored_s = time.monotonic() - began
    return {
        "listed on offline": listed_s,
        "mirrored": mirrored_s,
        "longest wait of another topic": pulse.longest_s,
        "mirror's processor time": cpu_s([world.mirror.pid]) - before_s,
    }


def restart(world: World, topics: int, rest_s: float) -> Figures:
    """Kill the mirror and start it again."""
    wanted = set(world.ends(world.source))
    world.mirror.kill()

    def is_resumed() -> bool:
        copying = {
            TopicPartition(one["topic"], one["partition"])
            for one in world.status().get("partitions", ())
            if one["state"] == "copying"
        }
        return copying >= wanted

    def run() -> float:
        world.start_mirror()
        return world.await_(is_resumed, "all topics to be resumed")

    resumed_s = run()
    return {"all topics resumed": resumed_s, "mirror's processor time": cpu_s([world.mirror.pid])}


def rest(world: World, topics: int, rest_s: float) -> Figures:
    """Watch all processes while nothing is written."""
    world.await_(world.is_level, "all topics to be mirrored", every_s=0.5)
    waited: Counter[str] = Counter()
    began, quiet = time.monotonic(), 0
    while quiet < QUIET_SLICES and time.monotonic() - began < LONGEST_SETTLING_S:
        busy = [name for name, share in world.shares(SETTLE_S).items() if share >= QUIET]
        waited.update(busy)
        quiet = 0 if busy else quiet + 1
    settled_s = time.monotonic() - began
    waited_for = ", ".join(f"{who} (busy for {SETTLE_S * slices:.0f} s)" for who, slices in waited.items())
    print(f"waited {settled_s:.0f} s for {QUIET_SLICES * SETTLE_S:.0f} quiet ones: {waited_for or 'nobody'}", file=sys.stderr)
    return {**{name: 100 * share for name, share in world.shares(rest_s).items()}, "settled after": settled_s}


ALL = (
    Measure(
        name="grow",
        title="Topics appear on live",
        run=grow,
        units={
            "listed on offline": "s",
            "mirrored": "s",
            "longest wait of another topic": "s",
            "mirror's processor time": "s",
        },
    ),
    Measure(
        name="rest",
        title="At rest",
        run=rest,
        units={"mirror": "%", "brokers": "%", "ZooKeepers": "%", "audit": "%", "settled after": "s"},
    ),
    Measure(
        name="churn",
        title="1,000 topics are created and deleted",
        run=of_broker.churn,
        units={
            "created": "s",
            "created, broker's processor time": "s",
            "deleted": "s",
            "deleted, broker's processor time": "s",
        },
    ),
    Measure(
        name="idle-fetch",
        title="A fetch of all partitions at their ends",
        run=of_broker.idle_fetches,
        units={
            "partitions": "",
            "without a session, bytes": "B",
            "without a session, broker": "ms",
            "without a session, client": "ms",
            "in a session, bytes": "B",
            "in a session, broker": "ms",
            "in a session, client": "ms",
        },
    ),
    Measure(
        name="restart",
        title="The mirror restarts",
        run=restart,
        units={"all topics resumed": "s", "mirror's processor time": "s"},
    ),
    Measure(
        name="loggers",
        title="Loggers that log nothing",
        run=of_loggers.loggers,
        units={f"{name}, {count:,} loggers": unit for count in of_loggers.COUNTS for name, unit in of_loggers.UNITS.items()},
    ),
)
