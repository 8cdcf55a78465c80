"""Three brokers, ZooKeeper, and what may befall them."""

import json
import logging
from collections.abc import Callable
from typing import Any

from headrace.broker.assembly import Assembled, assemble
from headrace.broker.partitions.identity import identify
from headrace.broker.settings import broker_settings
from headrace.coordination import paths
from headrace.coordination.topic_id import id_word, topic_id

from .disks import Disks
from .ensemble import Ensemble
from .machine import SimulatedMachine
from .network import Network
from .scheduler import Killed, Process, SimulatedThread, Simulation
from .zookeeper_client import HOST

REPLICAS = 3
PORT = 9092
TOPIC = "events"
FAULTS_OF_OURS = frozenset(
    {"loop_call_failed", "loop_event_failed", "flush_waiter_failed", "watch_callback_failed", "state_listener_failed"}
)
"""Events of the log that only a fault in our code brings."""
SETTINGS = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "zookeeper.session.timeout.ms=3000",
    "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=1000",
    "topic.creation.wait.ms=0",
    "listeners.insecure.allowed=true",
    # After a start, the age of a segment may be that of its file, which has the real time.
    "log.retention.ms=-1",
)
START_AGAIN_MS = 300


class BrokerHost:
    """One start of a broker: the process around it (`assembly.Host`)."""

    def __init__(self, cluster: "Cluster", broker_id: int, number: int) -> None:
        self.cluster, self.broker_id = cluster, broker_id
        name = f"broker-{broker_id}"
        sim = cluster.sim
        self.process = Process(sim, f"{name}.{number}", name, b"boot %d of %d" % (cluster.boots[broker_id], broker_id))
        self.machine = SimulatedMachine(cluster.ensemble, cluster.network, self.process)
        self.machine.disk_ms = cluster.disk_ms.get(broker_id, self.machine.disk_ms)
        self.process.wall_offset_ms = cluster.wall_offsets_ms.get(broker_id, 0)
        self.doing = ""
        self.made: Assembled | None = None
        self._stops: list[tuple[str, Callable[[], None]]] = []
        self._loop_thread: SimulatedThread | None = None

    def begin(self) -> None:
        SimulatedThread(self.process, self._start, "start").start()

    def _start(self) -> None:
        cluster, machine = self.cluster, self.machine
        settings = broker_settings.from_words(
            data=cluster.disks.folder(f"broker-{self.broker_id}"),
            zookeeper=HOST,
            broker_id=self.broker_id,
            words=[*SETTINGS, *cluster.settings, f"listeners=PLAINTEXT://broker-{self.broker_id}:{PORT}"],
        )
        self.loop = machine.new_loop()
        try:
            identity = identify(settings.data, self.broker_id, machine.surroundings.new_id)
            self.made = assemble(settings, machine, self.loop, self, identity.folder_id)
        except Killed:
            raise
        except Exception as error:
            # As a supervisor does: what has not started is started again.
            self.cluster.sim.note(self.process.name, "did not start:", type(error).__name__, error)
            self.cluster.failed_start(self, error)
            return
        self.cluster.sim.note(self.process.name, "is ready")

    # -- assembly.Host -----------------------------------------------------------------------------

    def started(self, name: str, stop: Callable[[], None]) -> None:
        self._stops.append((name, stop))

    def watch(self, parts: object) -> None:
        pass

    def run_loop(self) -> None:
        self._loop_thread = SimulatedThread(self.process, self.loop.run, "loop")
        self._loop_thread.start()

    def has_loop_ended(self) -> bool:
        return self._loop_thread is None or not self._loop_thread.is_alive()

    def join_loop(self) -> None:
        if self._loop_thread is not None:
            self._loop_thread.join(10)

    def refused(self, error: BaseException) -> None:
        raise AssertionError(f"another broker has the id: {error}")

    def stop(self) -> None:
        """Stop as SIGTERM does, on a thread of the process."""

        def stop() -> None:
            while self._stops:
                name, one = self._stops.pop()
                try:
                    one()
                except Exception as error:
                    self.cluster.sim.note(self.process.name, "stop failed:", name, type(error).__name__)
            self.cluster.sim.note(self.process.name, "has stopped")
            self.cluster.ended(self)

        SimulatedThread(self.process, stop, "stop").start()


class Cluster:
    """See the module."""

    def __init__(self, sim: Simulation, disks: Disks, settings: tuple[str, ...] = (), brokers: int = 3) -> None:
        self.sim, self.disks, self.settings = sim, disks, settings
        self.brokers = range(1, brokers + 1)
        self.network = Network(sim)
        self.ensemble = Ensemble(sim)
        self.hosts: dict[int, BrokerHost] = {}
        self.boots = dict.fromkeys(self.brokers, 0)
        self.disk_ms: dict[int, float] = {}
        self.wall_offsets_ms: dict[int, int] = {}
        self._starts = 0
        self.is_healed = False
        self.is_down_at_deletion: int | None = None
        """Which broker is to be down when the short topic is deleted and made again next."""

    def start(self, broker_id: int) -> None:
        host = self.hosts.get(broker_id)
        if host is not None and not host.process.is_dead:
            return
        self.network.off.discard(f"broker-{broker_id}")
        self._starts += 1
        host = self.hosts[broker_id] = BrokerHost(self, broker_id, self._starts)
        self.sim.note("start", host.process.name)
        host.begin()

    def failed_start(self, host: BrokerHost, error: Exception) -> None:
        self.sim.kill(host.process)
        self.sim.call_in(START_AGAIN_MS, lambda: self._start_again(host))

    def _start_again(self, host: BrokerHost) -> None:
        if self.hosts.get(host.broker_id) is host:
            self.start(host.broker_id)

    def ended(self, host: BrokerHost) -> None:
        self.sim.kill(host.process)
        if self.is_healed:  # the stop began before
            self.sim.call_in(START_AGAIN_MS, lambda: self._start_again(host))

    def is_up(self, broker_id: int) -> bool:
        host = self.hosts.get(broker_id)
        return host is not None and not host.process.is_dead

    def kill(self, broker_id: int) -> None:
        if self.is_up(broker_id):
            self.sim.note("kill", broker_id)
            self.sim.kill(self.hosts[broker_id].process)

    def stop(self, broker_id: int) -> None:
        if self.is_up(broker_id) and self.hosts[broker_id].made is not None:
            self.sim.note("stop", broker_id)
            self.hosts[broker_id].stop()

    def cut_power(self, broker_id: int) -> None:
        if broker_id not in self.hosts:
            return
        self.sim.note("cut the power of", broker_id)
        self.network.off.add(f"broker-{broker_id}")
        self.sim.kill(self.hosts[broker_id].process)
        self.boots[broker_id] += 1
        self.disks.cut_power(f"broker-{broker_id}")

    def pause(self, broker_id: int) -> None:
        if self.is_up(broker_id):
            self.sim.note("pause", broker_id)
            self.hosts[broker_id].process.pause()

    def resume(self, broker_id: int) -> None:
        if self.is_up(broker_id) and self.hosts[broker_id].process.is_paused:
            self.sim.note("resume", broker_id)
            self.hosts[broker_id].process.resume()

    def die_soon(self, broker_id: int, changes: int) -> None:
        if self.is_up(broker_id):
            self.disks.dies_after[self.hosts[broker_id].process.name] = changes

    def set_disk_ms(self, broker_id: int, disk_ms: float) -> None:
        self.disk_ms[broker_id] = disk_ms
        if broker_id in self.hosts:
            self.hosts[broker_id].machine.disk_ms = disk_ms

    def jump_clock(self, broker_id: int, by_ms: int) -> None:
        self.wall_offsets_ms[broker_id] = by_ms
        if broker_id in self.hosts:
            self.hosts[broker_id].process.wall_offset_ms = by_ms

    def damage(self, broker_id: int, topic: str, partition: int, size: int) -> None:
        """Change a bit. One that no CRC covers needs a majority to be repaired, so there must be three replicas at any time."""
        is_covered = len(self.brokers) > REPLICAS or size % 4 > 0
        where = self.disks.flip_a_bit(f"broker-{broker_id}", f"{topic}-{partition}", size, is_covered=is_covered)
        self.sim.note("damage", broker_id, where)

    def states(self, topic: str = TOPIC) -> dict[int, dict[str, Any]]:
        """Return ZooKeeper's newest node of each partition of a topic."""
        nodes = self.ensemble.leader.nodes
        node = nodes.get(f"/brokers/topics/{topic}")
        if node is None:
            return {}
        made = topic_id(topic, created_zxid=node.zxid, created_ms=node.at_ms)
        above = paths.replica_states(id_word(made))
        names = nodes[above].children if above in nodes else ()
        return {int(name): json.loads(nodes[f"{above}/{name}"].data) for name in names}

    def is_in_sync(self, topic: str = TOPIC) -> bool:
        """Return whether nothing moves, and all replicas of each partition are in its set."""
        return all(
            not state["targets"] and {int(one[0]) for one in state["members"]} == set(state["replicas"])
            for state in self.states(topic).values()
        )

    def leader_of(self, partition: int) -> int | None:
        """Return the broker that ZooKeeper's newest node of the partition names."""
        state = self.states().get(partition)
        return None if state is None else int(state["leader"])


class NotedLog(logging.Handler):
    """Puts what the brokers log into the transcript. A fault of ours ends the run."""

    def __init__(self, sim: Simulation) -> None:
        super().__init__()
        self._sim = sim

    def emit(self, record: logging.LogRecord) -> None:
        sim = self._sim
        name = "-" if sim.current is None else sim.current.process.name
        message: Any = record.msg
        event = getattr(message, "event", None) or record.getMessage()
        fields = getattr(record, "fields", {})
        sim.note(name, event, *(f"{key}={value}" for key, value in fields.items()))
        if event in FAULTS_OF_OURS and record.exc_info and sim.failure is None:
            sim.failure = record.exc_info[1]
