"""Schemas before data, in 2,000 random interleavings of producers, registry, mirror, kills and a failing source.

The gate is the real one; the logs are lists. Between any two things that the mirror does, everybody else may do something. The
oracle looks at the lists alone: whatever the destination holds of data, it holds the schema of.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from headrace.client.fetch.fetched import FetchedPartition
from headrace.errors import HeadraceError
from headrace.mirror.schemas.schemas_first import SchemasFirst
from headrace.runtime.clock import ManualClock
from headrace.schema_registry.errors import RegistryUnavailable

INTERLEAVINGS = 2_000
"""The two mistakes below are found within the first ten."""
STEPS = 15


@dataclass
class FetchedData:
    """What the gate looks at of a fetch, and what the mirror appends of it."""

    batches: list[int]
    start: int


@dataclass
class World:
    """Two clusters, each with one topic of data (values are schema ids) and the schemas topic."""

    seed: int
    schemas: list[int] = field(default_factory=list)
    data: list[int] = field(default_factory=list)
    schemas_there: list[int] = field(default_factory=list)
    data_there: list[int] = field(default_factory=list)
    is_topic_made: bool = False
    knows_copy: bool = False
    """The mirror has read, since its start, how far the copy of the schemas is."""
    waited: int = 0
    appended: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.clock = ManualClock()

    # -- everybody else

    def others(self) -> None:
        """Let producers and registries do between nothing and three things."""
        for _ in range(self.random.randrange(4)):
            if self.random.random() < 0.4:
                self.is_topic_made = True
                self.schemas.append(len(self.schemas) + 1)
            elif self.schemas:
                self.data.append(self.random.choice(self.schemas[-3:]))

    def _perhaps_fails(self) -> None:
        self.clock.advance(self.random.choice((0, 1, 300)))
        if self.random.random() < 0.1:
            raise RegistryUnavailable("the source does not answer")

    # -- what the gate asks

    def live_end(self) -> int | None:
        self.others()
        self._perhaps_fails()
        end = len(self.schemas) if self.is_topic_made else None
        self.others()
        return end

    def copied_to(self) -> int:
        self.others()
        return len(self.schemas_there) if self.knows_copy else -1

    def advance(self) -> None:
        self.others()
        self._perhaps_fails()
        if not self.knows_copy:
            self.knows_copy = True
            return
        upto = self.random.randint(len(self.schemas_there), len(self.schemas))
        self.schemas_there += self.schemas[len(self.schemas_there) : upto]
        self.others()

    def trouble(self) -> str | None:
        return None

    # -- the mirror

    def fetch(self) -> FetchedData:
        self.others()
        start = len(self.data_there)
        return FetchedData(batches=self.data[start : start + self.random.randrange(5)], start=start)

    def append(self, fetched: FetchedData) -> None:
        for schema_id in fetched.batches:
            self.data_there.append(schema_id)
            self.appended += 1
            if self.random.random() < 0.05:
                self.die()
                return

    def die(self) -> None:
        self.knows_copy = False


def check(world: World) -> None:
    there = set(world.schemas_there)
    missing = [schema_id for schema_id in world.data_there if schema_id not in there]
    assert not missing, f"seed {world.seed}: data with schemas {missing} arrived before them"


def play(seed: int, gate_of: Callable[[World], Callable[[list[FetchedPartition]], list[FetchedPartition]]]) -> World:
    world = World(seed)
    admitted = gate_of(world)
    for _ in range(STEPS):
        fetched = world.fetch()
        world.others()
        kept = admitted(cast("list[FetchedPartition]", [fetched]))
        world.others()
        world.waited += not kept
        if kept:
            world.append(fetched)
        check(world)
        if world.random.random() < 0.05:
            world.die()
            admitted = gate_of(world)
    return world


def play_all(gate_of: Callable[[World], Callable[[list[FetchedPartition]], list[FetchedPartition]]]) -> list[World]:
    return [play(seed, gate_of) for seed in range(INTERLEAVINGS)]


def real(world: World) -> Callable[[list[FetchedPartition]], list[FetchedPartition]]:
    return SchemasFirst(world, world.clock, wait_ms=1_000).admitted


def test_no_interleaving_brings_data_before_its_schema() -> None:
    worlds = play_all(real)
    # The search meets what it looks for: data that waits, and data that goes through.
    assert sum(world.waited > 0 for world in worlds) > INTERLEAVINGS // 10
    assert sum(world.appended for world in worlds) > INTERLEAVINGS * 5
    assert sum(len(world.schemas_there) for world in worlds) > INTERLEAVINGS


class EndReadBeforeTheFetch(SchemasFirst):
    """The mistake that the order of steps is there for: the end is as old as the last turn."""

    def __init__(self, world: World) -> None:
        super().__init__(world, world.clock, wait_ms=1_000)
        self._world = world
        self._old: int | None = 0

    def admitted(self, fetched: list[FetchedPartition]) -> list[FetchedPartition]:
        try:
            is_good = self._old is None or self._reached(self._old)
            self._old = self._world.live_end()
        except HeadraceError:
            return []
        return fetched if is_good else []


@pytest.mark.parametrize("gate_of", [lambda world: list, lambda world: EndReadBeforeTheFetch(world).admitted])
def test_the_search_finds_a_mirror_without_the_gate_and_one_that_reads_the_end_too_early(
    gate_of: Callable[[World], Callable[[list[FetchedPartition]], list[FetchedPartition]]],
) -> None:
    with pytest.raises(AssertionError, match="arrived before them"):
        play_all(gate_of)


def test_data_whose_schemas_do_not_come_is_dropped_in_bounded_time_and_told() -> None:
    world = World(1, schemas=[1], data=[1], is_topic_made=True, knows_copy=True)
    world.others = lambda: None  # type: ignore[method-assign]
    world.advance = lambda: world.clock.advance(100)  # type: ignore[method-assign]
    world._perhaps_fails = lambda: None  # type: ignore[method-assign]
    gate = SchemasFirst(world, world.clock, wait_ms=2_000)
    began_ms = world.clock.monotonic_ms()
    assert gate.admitted(cast("list[FetchedPartition]", [FetchedData(batches=[1], start=0)])) == []
    assert world.clock.monotonic_ms() - began_ms == 2_000
    assert gate.waits_for is not None
    assert "copied to 0, and the source has them to 1" in gate.waits_for
    world.schemas_there = [1]
    fetched = cast("list[FetchedPartition]", [FetchedData(batches=[1], start=0)])
    assert gate.admitted(fetched) == fetched
    assert gate.waits_for is None
