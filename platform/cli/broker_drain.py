"""`headrace broker drain`: moves leaderships, then replicas, away from a broker, and waits until it has none.

The moves are in the cluster, so the command can be ended and repeated: it waits for what is under way and asks for the rest.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from ..client import draining, reassignment, topic_admin
from ..client.connection.cluster import Cluster
from ..client.draining import DrainPlan
from ..client.reassignment import Brokers, Move, Partition
from ..client.topic_admin import PartitionPlace
from .chosen_cluster import connected
from .errors import UsageError

LOOK_EVERY_MS = 500
ELECTIONS = 3
"""Times that a partition's preferred leader is asked for."""
MOST_LINES = 50
"""Partitions that are listed with what is wrong; --json has all."""


def run(arguments: argparse.Namespace) -> int:
    if arguments.at_once < 1:
        raise UsageError(f"--at-once {arguments.at_once}: at least one partition must be under way")
    cluster = connected(arguments, "broker")
    try:
        drain = Drain(cluster, arguments)
        drain.look()
        if arguments.broker_id not in drain.live and not drain.kept():
            live = ", ".join(map(str, sorted(drain.live)))
            raise UsageError(f"broker {arguments.broker_id} is not there and has no replicas; brokers {live} are there")
        if not arguments.dry_run:
            drain.carry_out()
        return drain.show()
    finally:
        cluster.close()


class Drain:
    """One run of the command."""

    def __init__(self, cluster: Cluster, arguments: argparse.Namespace) -> None:
        self._cluster, self._arguments = cluster, arguments
        self._drained: int = arguments.broker_id
        self._deadline: float = time.monotonic() + arguments.wait_ms / 1000
        self.live: set[int] = set()
        self._places: dict[Partition, PartitionPlace] = {}
        """With the replicas that each partition has when no move is under way any more."""
        self._moving: Mapping[Partition, Move] = {}
        self._before: dict[Partition, Brokers] = {}
        self._asked: dict[Partition, Brokers] = {}
        self._faults: dict[Partition, str] = {}
        """What was refused."""

    def look(self) -> None:
        """Ask the cluster where everything is."""
        self._moving = reassignment.moving(self._cluster)
        described = topic_admin.describe_cluster(self._cluster)
        self.live = set(described.brokers)
        self._places = {}
        for topic in described.topics:
            for one in topic.partitions:
                partition = topic.name, one.partition
                leaving = self._moving[partition].removing if partition in self._moving else ()
                self._places[partition] = replace(one, replicas=tuple(each for each in one.replicas if each not in leaving))

    def kept(self) -> set[Partition]:
        """Return the partitions that have a replica on the broker, also those that it is about to lose."""
        staying = {partition for partition, one in self._places.items() if self._drained in one.replicas}
        return staying | self._leaving()

    def carry_out(self) -> None:
        """Move leaderships, then replicas, until nothing more can be moved or the time is over."""
        self._move_leaders()
        if self._arguments.leaders_only:
            return
        self._asked.clear()
        known: set[Partition] = set()
        while not self._is_late():
            # Topics that are created meanwhile may have replicas here: they are moved, too.
            plan = self._plan()
            new = {one: brokers for one, brokers in plan.moves.items() if one not in known}
            if not new and not self._leaving():
                return
            known.update(new)
            self._move(new, with_earlier=True)

    def _plan(self) -> DrainPlan:
        if self._arguments.leaders_only:
            return draining.plan_leaders(self._places, self._drained)
        return draining.plan_replicas(self._places, self._drained, self.live)

    def _leaving(self) -> set[Partition]:
        return {partition for partition, move in self._moving.items() if self._drained in move.removing}

    def _move_leaders(self) -> None:
        plan = draining.plan_leaders(self._places, self._drained)
        for some in _runs(plan.moves, self._arguments.at_once):
            self._move({one: brokers for one, brokers in some.items() if self._replicas(one) != brokers}, with_earlier=False)
            self._elect(some)

    def _elect(self, moves: Mapping[Partition, Brokers]) -> None:
        for _ in range(ELECTIONS):
            led = [one for one in moves if one in self._places and self._places[one].leader == self._drained]
            if not led or self._is_late():
                return
            wanted: dict[str, list[int]] = {}
            for topic, index in led:
                wanted.setdefault(topic, []).append(index)
            for partition, error in topic_admin.elect_preferred_leaders(self._cluster, wanted).items():
                if error is None:
                    self._faults.pop(partition, None)
                else:
                    self._faults[partition] = str(error)
            self._pause()

    def _move(self, moves: Mapping[Partition, Brokers], *, with_earlier: bool) -> None:
        """Ask for these moves, so many at once, and wait until all are there; `with_earlier`: also those of an earlier run."""
        todo = dict(moves)
        under_way: dict[Partition, Brokers] = {}
        while not self._is_late():
            under_way = {one: brokers for one, brokers in under_way.items() if not self._is_done(one, brokers)}
            earlier = self._leaving() - under_way.keys() if with_earlier else set()
            self._report(len(todo) + len(under_way.keys() | earlier))
            if not todo and not under_way and not earlier:
                return
            some = dict(islice(todo.items(), max(0, self._arguments.at_once - len(under_way) - len(earlier))))
            for partition, error in (reassignment.reassign(self._cluster, some) if some else {}).items():
                self._before.setdefault(partition, self._replicas(partition))
                if error is None:
                    self._asked[partition] = under_way[partition] = todo[partition]
                else:
                    self._faults[partition] = str(error)
            for partition in some:
                del todo[partition]
            self._pause()

    def _is_done(self, partition: Partition, brokers: Brokers) -> bool:
        if partition not in self._places:
            return True  # its topic was deleted
        return partition not in self._moving and self._replicas(partition) == brokers

    def _replicas(self, partition: Partition) -> Brokers:
        """Return the partition's replicas, none when its topic was deleted."""
        return self._places[partition].replicas if partition in self._places else ()

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _pause(self) -> None:
        time.sleep(LOOK_EVERY_MS / 1000)
        self.look()

    def _report(self, left: int) -> None:
        if sys.stderr.isatty():
            keeps, leads = len(self.kept()), self._count_led()
            words = f"broker {self._drained} keeps {keeps} partitions and leads {leads}; {left} to move"
            print(f"\r{words:<78}", end="" if left else "\n", file=sys.stderr, flush=True)

    def _count_led(self) -> int:
        return sum(one.leader == self._drained for one in self._places.values())

    def show(self) -> int:
        """Print what came of it, and return the exit code."""
        plan, leaving = self._plan(), self._leaving()
        stuck = {**plan.stuck, **{one: why for one, why in self._faults.items() if one in plan.moves}}
        planned = {one: brokers for one, brokers in plan.moves.items() if one not in stuck}
        is_dry = self._arguments.dry_run
        rows = [self._row(one, brokers, "moved") for one, brokers in self._asked.items() if self._is_done(one, brokers)]
        rows += [self._row(one, self._replicas(one), "moving") for one in sorted(leaving) if one not in stuck]
        rows += [
            self._row(one, brokers, "planned" if is_dry else "left") for one, brokers in planned.items() if one not in leaving
        ]
        rows += [self._row(one, None, "stuck", why) for one, why in sorted(stuck.items())]
        keeps, leads = len(self.kept()), self._count_led()
        if self._arguments.json:
            print(json.dumps({"broker_id": self._drained, "keeps": keeps, "leads": leads, "partitions": rows}))
        else:
            if is_dry:
                for one, brokers in planned.items():
                    print(f"{one[0]}-{one[1]}: from {list(self._replicas(one))} to {list(brokers)}")
                print(f"{len(planned)} partitions would move")
            print(f"broker {self._drained} keeps {keeps} partitions and leads {leads}")
        for (topic, index), why in sorted(stuck.items())[:MOST_LINES]:
            print(f"headrace broker: {topic}-{index} cannot be moved: {why}", file=sys.stderr)
        if len(stuck) > MOST_LINES:
            print(f"headrace broker: {len(stuck) - MOST_LINES} more cannot be moved: --json lists them", file=sys.stderr)
        if is_dry:
            return 1 if stuck else 0
        if planned or leaving:
            print("headrace broker: partitions still move: the same command continues and waits", file=sys.stderr)
        return 1 if stuck or planned or leaving else 0

    def _row(self, partition: Partition, to: Brokers | None, state: str, why: str | None = None) -> dict[str, object]:
        before = self._before.get(partition) or self._replicas(partition)
        return {
            "topic": partition[0], "partition": partition[1], "from": list(before), "to": None if to is None else list(to),
            "state": state, "why": why,
        }  # fmt: skip


def _runs(moves: Mapping[Partition, Brokers], count: int) -> Iterator[dict[Partition, Brokers]]:
    left = iter(moves.items())
    while some := dict(islice(left, count)):
        yield some
