"""The agent is killed between any two of its steps, again and again: nothing is lost, nothing is doubled, the audit is right."""

import random
from collections import deque
from collections.abc import Callable

import pytest

from headrace.agent.plan.entries import ChunkPlan
from headrace.agent.shipping.open_source import OpenSource
from headrace.agent.shipping.shipper import Shipper
from headrace.agent.source import AuditRun, Position
from headrace.agent.state.rows import ChunkRow, SourceRow
from headrace.audit.model.facts import Kind
from headrace.audit.model.windows import WINDOW_MS

from .sources import MemorySource
from .world import START_MS, Crashed, World


def crash_at(number: int) -> Callable[[str], None]:
    """Return a step that kills the agent at its `number`-th place."""
    left = number

    def step(name: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crashed(name)

    return step


def take_turns(agent: Shipper) -> None:
    while True:
        agent.turn()


@pytest.mark.parametrize("seed", range(20))
def test_killed_between_any_two_steps_everything_is_there_once_and_complete(world: World, seed: int) -> None:
    draw = random.Random(seed)
    journals = [world.group.journal(f"j{at}", begins_ms=START_MS) for at in range(draw.randint(1, 3))]
    expected = 0
    for journal in journals:
        journal.most_records = draw.choice([3, 10, 40])
        for _ in range(draw.randint(1, 4)):
            count = draw.randint(1, 40)
            key = draw.choice([None, b"a", b"b"])
            journal.log(*range(expected, expected + count), at_ms=START_MS + draw.choice([0, WINDOW_MS]), key=key)
            if draw.random() < 0.3:
                journal.log_nonsense(f"{draw.random()}")
            expected += count
    for _ in range(6):
        with world.running(crash_at(draw.randint(0, 60))) as agent:
            with pytest.raises(Crashed):
                take_turns(agent)
    for journal in journals:
        journal.is_over = True
    with world.running() as agent:
        world.work(agent, lambda: all(one.is_removed for one in journals), "every journal is removed")
        world.clock.jump(3 * WINDOW_MS)

        def are_decided() -> bool:
            found = world.verdicts()
            return all(found[one].kind is not Kind.OPEN for one in found)

        world.work(agent, are_decided, "every window is decided")
    assert world.numbers() == dict.fromkeys(range(expected), 1)
    verdicts = world.verdicts()
    assert {one.kind for start, one in verdicts.items()} == {Kind.COMPLETE}, {s: (v.kind, v) for s, v in verdicts.items()}
    lines = [item for journal in journals for item in journal.items if isinstance(item, str)]
    assert len(world.read("clicks.quarantine")) == len(lines)


def test_a_chunk_settled_out_of_turn_before_a_crash_does_not_hold_its_source_for_ever() -> None:
    """The chunk is in the state no more, and the one before it ends where it began."""
    source = MemorySource("a", "clicks", AuditRun(instance="host/app/a"))
    row = SourceRow(id=1, name="a", run_id=2, settled=Position("60"), planned=Position("80"))
    plan = ChunkPlan(source="a", start=row.settled, end=Position("70"), topic="clicks", schema_id=7, planned_ms=0)
    chunk = ChunkRow(id=1, source_id=1, run_id=2, plan=plan)
    one = OpenSource(source, row, deque([chunk]))
    assert one.settle(chunk)
    assert row.settled == "80"
