"""The loop's poller, workers' threads and flushes of a simulated machine."""

from collections import deque
from collections.abc import Callable
from select import EPOLLIN
from typing import Any

from headrace.broker.event_loop.worker import Worker
from headrace.broker.log import FlushJob

from .network import Network
from .scheduler import Process, SimulatedThread

AT_ONCE = 4
Job = tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]


class SimulatedPoller:
    """A `Poller`. Level-triggered, as the loop uses epoll."""

    wake_fd = 1

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process
        self._masks: dict[int, int] = {}
        self._hot: dict[int, None] = {}
        """Descriptors that may have events: looked at by each poll until they have none."""
        self._is_woken = False
        self._waiting: SimulatedThread | None = None

    def register(self, fd: int, mask: int) -> None:
        self._masks[fd] = mask
        self._network.sockets[fd].poller = self
        self.notify(fd)

    def modify(self, fd: int, mask: int) -> None:
        self._masks[fd] = mask
        self._hot[fd] = None

    def unregister(self, fd: int) -> None:
        del self._masks[fd]
        self._hot.pop(fd, None)

    def poll(self, within_s: float, most: int) -> list[tuple[int, int]]:
        sim = self._process.sim
        if sim.chance.random() < 0.1:
            sim.sleep(sim.chance.random())  # what the loop's turn took
        found = self._ready()
        if not found and within_s > 0:
            self._waiting = sim.current
            sim.block(within_s)
            self._waiting = None
            found = self._ready()
        return found[:most]

    def wake(self) -> None:
        self._is_woken = True
        self._notify()

    def drain(self) -> None:
        self._is_woken = False

    def close(self) -> None:
        self._masks.clear()
        self._hot.clear()

    def notify(self, fd: int) -> None:
        """Something has happened at this descriptor."""
        self._hot[fd] = None
        self._notify()

    def _notify(self) -> None:
        if self._waiting is not None:
            self._process.sim.wake(self._waiting)

    def _ready(self) -> list[tuple[int, int]]:
        """Hot."""
        found = [(self.wake_fd, EPOLLIN)] if self._is_woken else []
        sockets, masks = self._network.sockets, self._masks
        for fd in list(self._hot):
            one, mask = sockets.get(fd), masks.get(fd)
            if one is not None and mask is not None and (events := one.events(mask)):
                found.append((fd, events))
            else:
                del self._hot[fd]
        return found


class SimulatedWorker(Worker):
    """Threads that take their time before each job. `delay_ms` draws how long."""

    def __init__(
        self,
        process: Process,
        delay_ms: Callable[[], float],
        name: str,
        post: Callable[[Callable[[], None]], None],
        *,
        capacity: int = 1_000,
        threads: int = 1,
    ) -> None:
        self.name, self.threads = name, threads
        self._process, self._delay_ms, self._post = process, delay_ms, post
        self._capacity = capacity
        self._queue: deque[Job | None] = deque()
        self._idle: deque[SimulatedThread] = deque()
        self._running = [SimulatedThread(process, self._work, f"{name} {number}") for number in range(threads)]

    def start(self) -> "SimulatedWorker":
        for thread in self._running:
            thread.start()
        return self

    def submit(self, job: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        if len(self._queue) >= self._capacity:
            return False
        self._put((job, done, failed))
        return True

    def stop(self, timeout_ms: int = 10_000) -> None:
        for _ in self._running:
            self._put(None)
        for thread in self._running:
            thread.join(timeout_ms / 1000)

    def _put(self, entry: Job | None) -> None:
        self._queue.append(entry)
        if self._idle:
            self._process.sim.wake(self._idle.popleft())

    def _work(self) -> None:
        sim = self._process.sim
        while True:
            while not self._queue:
                assert sim.current is not None
                self._idle.append(sim.current)
                sim.block()
            entry = self._queue.popleft()
            if entry is None:
                return
            sim.sleep(self._delay_ms())
            job, done, failed = entry
            try:
                result = job()
            except Exception as error:
                self._post(_bound(failed, error))
            else:
                self._post(_bound(done, result))


class SimulatedFlush:
    """A `Flusher`: several at once, each after its time."""

    most_at_once = AT_ONCE

    def __init__(self, worker: SimulatedWorker) -> None:
        self._worker = worker

    def start(self) -> None:
        self._worker.start()

    def flush(self, job: FlushJob, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> bool:
        return self._worker.submit(job.run, done, failed)

    def stop(self) -> None:
        self._worker.stop()


def _bound(function: Callable[[Any], None], value: Any) -> Callable[[], None]:
    return lambda: function(value)
