"""The simulated parts keep what the real ones promise."""

from collections.abc import Callable
from select import EPOLLIN

import pytest

from headrace.coordination.errors import ConnectionUnsure
from headrace.coordination.operations import Check, Create, Write
from headrace.coordination.session import Session, SessionState

from .ensemble import Ensemble
from .machine import SimulatedSurroundings
from .network import Network, SimulatedListener
from .scheduler import MS, Killed, Process, SimulatedThread, Simulation
from .zookeeper_client import HOST


class World:
    """A simulation with ZooKeeper and two processes."""

    def __init__(self, seed: int = 0) -> None:
        self.sim = Simulation(seed)
        self.network, self.ensemble = Network(self.sim), Ensemble(self.sim)
        self.first, self.second = Process(self.sim, "first", "first"), Process(self.sim, "second", "second")
        self.said: list[object] = []

    def session(self, process: Process) -> Session:
        around = SimulatedSurroundings(self.ensemble, self.network, process)
        return Session(HOST, session_timeout_ms=2_000, name=process.name, surroundings=around)

    def on(self, process: Process, act: Callable[[], None], for_ms: int = 20_000) -> None:
        SimulatedThread(process, act, "test").start()
        self.sim.run(self.sim.now_us + for_ms * MS)


def test_a_server_that_lags_shows_what_was_and_a_sync_what_is() -> None:
    world = World()
    ahead, behind = world.ensemble.servers[:2]

    def act() -> None:
        writes, reads = world.session(world.first).start(), world.session(world.second).start()
        writes._client._server, reads._client._server = ahead, behind  # type: ignore[union-attr]
        writes.tree.put("/x", b"old")
        world.sim.sleep(100)
        behind.lag_ms = 60_000
        writes.tree.put("/x", b"new")
        for session in (writes, reads):
            node = session.tree.read("/x")
            world.said.append(None if node is None else node.data)
        reads.tree.sync("/x")
        node = reads.tree.read("/x")
        world.said.append(None if node is None else node.data)

    world.on(world.first, act)
    assert world.said == [b"new", b"old", b"new"]


def test_the_nodes_of_a_session_go_with_it_and_watches_fire() -> None:
    world = World()

    def hold() -> None:
        session = world.session(world.first).start()
        session.tree.create("/names/first", b"", ephemeral=True)
        world.sim.sleep(60_000)

    def watch() -> None:
        session = world.session(world.second).start()
        session.watch_children("/names", lambda: world.said.append(session.tree.children("/names")))
        world.sim.sleep(60_000)

    SimulatedThread(world.first, hold, "hold").start()
    world.on(world.second, watch, 1_000)
    assert world.said[-1] == ["first"]
    world.first.pause()
    world.sim.run(world.sim.now_us + 5_000 * MS)
    assert world.said[-1] == []


def test_a_transaction_is_carried_out_whole_or_not_at_all() -> None:
    world = World()

    def act() -> None:
        tree = world.session(world.first).start().tree
        tree.create("/a", b"1")
        world.said.append(tree.transact([Write(path="/a", data=b"2", version=0), Create(path="/a/b", data=b"")]))
        world.said.append(tree.transact([Create(path="/a/c", data=b""), Check(path="/a", version=0)]))
        world.said.append(tree.children("/a"))

    world.on(world.first, act)
    assert world.said == [None, 1, ["b"]]


def test_a_session_behind_a_cut_is_unsure_and_then_lost() -> None:
    world = World()

    def act() -> None:
        session = world.session(world.first).start()
        session.on_change(world.said.append)
        world.network.cut |= {("first", HOST), (HOST, "first")}
        with pytest.raises(ConnectionUnsure):
            session.tree.create("/x", b"")
        world.sim.sleep(5_000)
        for link in sorted(world.network.cut):
            world.network.mend(link)
        world.sim.sleep(5_000)

    world.on(world.first, act, 30_000)
    assert world.said == [SessionState.UNSURE, SessionState.LOST, SessionState.SURE]


def test_what_is_sent_through_a_one_way_cut_arrives_when_it_is_mended() -> None:
    world = World()
    listener = SimulatedListener(world.network, world.second, "second", 1)

    def act() -> None:
        connected = world.network.connect(world.first, "second", 1, 1.0)
        accepted, _ = listener.accept()
        world.network.cut.add(("first", "second"))
        connected.sendall(b"late")
        accepted.send(b"on time")
        world.said.append(connected.recv(100))
        world.sim.sleep(1_000)
        world.said.append(bytes(accepted.inbox))
        world.network.mend(("first", "second"))
        world.said.append(bytes(accepted.inbox))

    world.on(world.first, act)
    assert world.said == [b"on time", b"", b"late"]


def test_a_killed_process_changes_nothing_more_and_its_peer_hears_the_end() -> None:
    world = World()
    listener = SimulatedListener(world.network, world.second, "second", 1)

    def act() -> None:
        connected = world.network.connect(world.first, "second", 1, 1.0)
        world.said.append(connected.recv(100))

    def die() -> None:
        try:
            world.sim.sleep(60_000)
        finally:
            with pytest.raises(Killed):
                world.sim.sleep(1)

    SimulatedThread(world.second, die, "dies").start()
    world.sim.call_in(500, lambda: world.sim.kill(world.second))
    world.on(world.first, act)
    assert world.said == [b""]
    assert ("second", 1) not in world.network.listeners
    assert listener.events(EPOLLIN) in (0, EPOLLIN)


def test_a_paused_process_gets_everything_later_in_its_order() -> None:
    world = World()
    world.first.pause()
    for number in range(5):
        world.sim.call_in(number, lambda number=number: world.said.append(number), world.first)  # type: ignore[misc]
    world.sim.run(world.sim.now_us + 100 * MS)
    assert world.said == []
    world.first.resume()
    world.sim.run(world.sim.now_us + 100 * MS)
    assert world.said == [0, 1, 2, 3, 4]
