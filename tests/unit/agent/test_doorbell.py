"""An agent that sleeps is woken by what an application logs: real journals, a scan that is hours away."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from headrace.agent.journals import JournalGroup, JournalSource
from headrace.agent.shipping.shipper import GATHER_MS, Shipper
from headrace.runtime.clock import SystemClock
from headrace.sdk.journal.settings import JournalSettings
from headrace.sdk.journal.transport import JournalTransport
from headrace.sdk.transport import LoggerRun

from .world import START_MS, World

HOURS_MS = 10_000_000


def started(root: Path) -> JournalTransport:
    run = LoggerRun(
        topic="clicks",
        schema='"bytes"',
        record_name="clicks",
        application="app",
        instance="host/app/1",
        server_name="host",
        lateness_ms=60_000,
    )
    transport = JournalTransport(run, JournalSettings(root=root, segment_bytes=1 << 20), SystemClock())
    transport.start()
    return transport


def agent_of(world: World, group: JournalGroup) -> Shipper:
    settings = replace(world.settings, scan_every_ms=HOURS_MS)
    agent = Shipper(settings, [group], world.registry, world.clock)
    agent.start()
    return agent


def test_what_is_logged_between_two_scans_is_shipped_at_once(world: World, tmp_path: Path) -> None:
    """Fault: an event waited for the next scan, half a second in the middle."""
    root = tmp_path / "journals"
    transport = started(root)
    group = JournalGroup(root, ["clicks"], agent="one", clock=world.clock)
    agent = agent_of(world, group)
    try:
        for number in range(5):
            transport.take(b"n=%d" % number, START_MS, None, 0)
            world.work(agent, lambda number=number: len(world.read("clicks")) > number, f"event {number}", within_s=20)
    finally:
        transport.close(0)
        agent.close()


def test_many_events_are_gathered_in_few_turns(world: World, tmp_path: Path) -> None:
    root = tmp_path / "journals"
    transport = started(root)
    group = JournalGroup(root, ["clicks"], agent="one", clock=world.clock)
    agent = agent_of(world, group)
    answered_ms, rung = [], group.rung

    def note() -> Sequence[JournalSource]:
        if found := rung():
            answered_ms.append(SystemClock().monotonic_ms())
        return found

    group.rung = note  # type: ignore[method-assign]
    try:
        for number in range(50):
            transport.take(b"n=%d" % number, START_MS, None, 0)
            agent.turn()
        world.work(agent, lambda: len(world.read("clicks")) == 50, "all events")
    finally:
        transport.close(0)
        agent.close()
    assert len(answered_ms) > 1
    assert min(after - before for before, after in pairwise(answered_ms)) >= GATHER_MS
