"""A file much larger than the agent's buffer when it is first met: read in turns, over all partitions, in bounded memory."""

from collections import Counter
from dataclasses import replace

from headrace.agent.settings import AgentSettings
from headrace.agent.shipping.shipper import Shipper
from headrace.agent.tail.make import tail_group
from headrace.wire.schema_id import unframe
from tests.support import tailing

from .world import World

CHUNK_BYTES = 16 << 10
BUFFER_BYTES = 64 << 10
LINES = 20_000


def test_a_large_file_at_the_first_start_fills_no_memory_and_lets_a_small_one_by(world: World) -> None:
    files = world.folder / "files"
    files.mkdir()
    (files / "large.log").write_text("".join(f"large {number:06} {'x' * 80}\n" for number in range(LINES)))
    assert (files / "large.log").stat().st_size > 20 * BUFFER_BYTES
    held: list[int] = []
    taken: list[int] = []

    def step(name: str) -> None:
        held.append(agent.delivery.planned.held_bytes)
        taken.append(max((len(one.chunks) for one in agent.sources.open_sources), default=0))

    agent = shipper(world, world.settings, step)
    try:
        agent.start()
        world.work(agent, lambda: agent.store.totals().get("acknowledged", 0) > 0, "some lines are acknowledged")
        (files / "small.log").write_text("small 000000\n")
        world.work(agent, lambda: "small 000000" in shipped(world), "the small file's line is shipped")
        assert len(shipped(world)) < LINES  # and the large one's are not all
        world.work(agent, lambda: agent.store.totals().get("acknowledged", 0) > LINES, "every line is acknowledged")
    finally:
        agent.close()
    assert max(held) < BUFFER_BYTES + 4 * CHUNK_BYTES
    assert max(taken) <= 4
    lines = shipped(world)
    assert Counter(lines) == Counter(["small 000000", *(f"large {number:06} {'x' * 80}" for number in range(LINES))])
    by_partition = partitions(world)
    assert all(len(one) > LINES // 10 for one in by_partition)
    for one in by_partition:
        large = [line for line in one if line.startswith("large")]
        assert large == sorted(large)


def shipper(world: World, settings: AgentSettings, step: object) -> Shipper:
    section = tailing.settings(world.folder / "files", topic="clicks")
    group = tail_group(section, host="host", agent_name="one", clock=world.clock)
    small = replace(settings, chunk_bytes=CHUNK_BYTES, buffer_bytes=BUFFER_BYTES)
    return Shipper(small, [group], world.registry, world.clock, step=step)  # type: ignore[arg-type]


def shipped(world: World) -> list[str]:
    return [tailing.line_of(bytes(unframe(value)[1])) for _, value in world.read("clicks")]


def partitions(world: World) -> list[list[str]]:
    """Return the lines of each partition: `World.read` gives them one after the other."""
    return [[tailing.line_of(bytes(unframe(value)[1])) for _, value in world.read("clicks", partition=one)] for one in (0, 1)]
