"""A simulated machine for one broker process: see `headrace.broker.machine.Machine`."""

import os
import random
from collections.abc import Callable
from typing import Any, cast

from headrace.broker.event_loop.loop import Loop
from headrace.broker.event_loop.worker import Worker
from headrace.broker.partitions.catalog import BrokerAddress
from headrace.broker.settings.broker_settings import BrokerSettings
from headrace.broker.settings.listeners import Listener
from headrace.coordination.session import Session

from .ensemble import STARTED_MS, Ensemble
from .network import Network, SimulatedListener, SimulatedSocket
from .poller import AT_ONCE, SimulatedFlush, SimulatedPoller, SimulatedWorker
from .scheduler import Process, SimulatedEvent, SimulatedThread
from .zookeeper_client import SimulatedClient


class SimulatedClock:
    """A `Clock`: the wall's may jump."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return STARTED_MS + self._process.sim.now_ms + self._process.wall_offset_ms

    def monotonic_ms(self) -> int:
        return self._process.sim.now_ms

    def sleep(self, for_ms: int) -> None:
        self._process.sim.sleep(for_ms)


class SimulatedSurroundings:
    """`Surroundings` of one process."""

    def __init__(self, ensemble: Ensemble, network: Network, process: Process) -> None:
        self._ensemble, self._network, self._process = ensemble, network, process
        self._clock = SimulatedClock(process)
        self._chance = random.Random(f"{process.sim.seed} {process.name}")

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._clock.now_ms()

    def new_id(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"

    def random_below(self, end: int) -> int:
        return self._chance.randrange(end)

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self._process)

    def thread(self, target: Callable[[], None], name: str) -> SimulatedThread:
        return SimulatedThread(self._process, target, name)

    def is_current(self, thread: Any) -> bool:
        return thread is self._process.sim.current

    def client(self, hosts: str, session_timeout_ms: int) -> SimulatedClient:
        return SimulatedClient(self._ensemble, self._network, self._process, session_timeout_ms)


class AllInMemory:
    """The page cache of a machine whose memory is large enough."""

    def holds(self, region: Any) -> bool:
        return True

    def copy(self, region: Any) -> bytes | None:
        copied = os.pread(region.fd, len(region), region.position)
        return copied if len(copied) == len(region) else None


class SimulatedMachine:
    """See the module. `disk_ms` is how long a job or a flush takes at most."""

    closed_at_once = 1

    def __init__(self, ensemble: Ensemble, network: Network, process: Process) -> None:
        self.network, self.process = network, process
        self.surroundings: Any = SimulatedSurroundings(ensemble, network, process)
        self.clock = SimulatedClock(process)
        self.disk_ms = 3.0
        self.loop: Loop | None = None

    def share_out_descriptors(self) -> int:
        return 1_000_000

    def new_loop(self) -> Loop:
        sim = self.process.sim
        poller = SimulatedPoller(self.network, self.process)
        self.loop = Loop(
            poller, monotonic_ms=self.clock.monotonic_ms, clock_ns=lambda: sim.now_us * 1_000, pause=lambda seconds: None
        )
        return self.loop

    def worker(self, name: str, post: Callable[[Callable[[], None]], None], **bounds: int) -> Worker:
        return SimulatedWorker(self.process, self._job_ms, name, post, **bounds)

    def flusher(self, loop: Loop) -> SimulatedFlush:
        return SimulatedFlush(SimulatedWorker(self.process, self._job_ms, "flush", loop.post, threads=AT_ONCE))

    def page_cache(self) -> AllInMemory:
        return AllInMemory()

    def session(self, settings: BrokerSettings) -> Session:
        return Session(
            settings.zookeeper,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            name=self.process.name,
            surroundings=self.surroundings,
        )

    def connect(self, settings: BrokerSettings) -> Callable[[BrokerAddress, float], Any]:
        return lambda other, within_s: self.network.connect(self.process, other.host, other.port, within_s)

    def bind(self, listener: Listener) -> Any:
        return SimulatedListener(self.network, self.process, listener.host, listener.port)

    def sendfile(self, to: int, fd: int, position: int, count: int) -> int:
        return cast(SimulatedSocket, self.network.sockets[to]).sendfile(fd, position, count, os.pread)

    def boot_id(self) -> bytes:
        return self.process.boot

    def _job_ms(self) -> float:
        chance = self.process.sim.chance
        return chance.uniform(0.02, self.disk_ms)
