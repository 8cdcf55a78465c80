"""Time, processes and their threads. One thing happens at a time; what is next follows from the seed.

A thread is a greenlet. It gives up control only where a real one would wait: for an event, for ZooKeeper's answer, for a socket,
for time. So another thread may run between a read from ZooKeeper and the write that follows from it.
"""

import heapq
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from greenlet import getcurrent, greenlet

MS = 1_000
"""Time is in microseconds here."""
MOST_STEPS = 3_000_000


class Killed(BaseException):
    """The process of this thread is dead. Nothing catches it but the thread's end."""


class Stuck(Exception):
    """The simulation does not come to an end."""


class Process:
    """A running program on a machine: a broker, or a group of clients."""

    def __init__(self, sim: "Simulation", name: str, host: str, boot: bytes = b"boot 0") -> None:
        self.sim, self.name, self.host, self.boot = sim, name, host, boot.ljust(16)
        self.is_dead = False
        self.is_paused = False
        self.wall_offset_ms = 0
        self.threads: list[SimulatedThread] = []
        self.late: list[Callable[[], None]] = []
        """What has come while it was paused, in order."""
        self.at_death: list[Callable[[], None]] = []

    def check(self) -> None:
        if self.is_dead:
            raise Killed

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        late, self.late = self.late, []
        for function in late:
            self.sim.call_at(self.sim.now_us, function, self)


class SimulatedThread:
    """As `threading.Thread`."""

    def __init__(self, process: Process, target: Callable[[], None], name: str) -> None:
        self.process, self.name = process, name
        self.token = 0
        self.is_done = False
        self._joining: list[SimulatedThread] = []
        self.greenlet = greenlet(self._run, process.sim.main)
        self._target = target

    def start(self) -> None:
        self.process.threads.append(self)
        self.process.sim.call_at(self.process.sim.now_us, lambda: self.process.sim.enter(self, None), self.process)

    def is_alive(self) -> bool:
        return not self.is_done

    def join(self, timeout: float | None = None) -> None:
        self.process.check()
        sim = self.process.sim
        if not self.is_done:
            thread = sim.current
            assert thread is not None
            self._joining.append(thread)
            sim.block(timeout)

    def _run(self, _: object) -> None:
        try:
            self.process.check()
            self._target()
        except Killed:
            pass
        finally:
            self.is_done = True
            for one in self._joining:
                self.process.sim.wake(one)


class Simulation:
    """Runs until `until_us`, or until nothing is left to do."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.chance = random.Random(f"run {seed}")
        self.main = getcurrent()
        self.current: SimulatedThread | None = None
        self.transcript: list[str] = []
        self.steps = 0
        self.failure: BaseException | None = None
        self._heap: list[tuple[int, int, Process | None, Callable[[], None]]] = []
        self._count = 0
        self._dying: list[Process] = []

    # -- time --------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.now_us // MS

    def call_at(self, at_us: int, function: Callable[[], None], process: Process | None = None) -> None:
        """Call `function` then, unless its process is dead by then. A paused process gets it when it continues."""
        self._count += 1
        heapq.heappush(self._heap, (max(at_us, self.now_us), self._count, process, function))

    def call_in(self, ms: float, function: Callable[[], None], process: Process | None = None) -> None:
        self.call_at(self.now_us + int(ms * MS), function, process)

    def run(self, until_us: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until_us and self.failure is None:
            at_us, _, process, function = heapq.heappop(heap)
            self.now_us = max(self.now_us, at_us)
            if process is not None:
                if process.is_dead:
                    continue
                if process.is_paused:
                    process.late.append(function)
                    continue
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Stuck(f"{MOST_STEPS} steps at {self.now_ms} ms")
            try:
                function()
            except Killed:
                pass
            while self._dying:
                self._bury(self._dying.pop(0))
        if self.failure is not None:
            raise self.failure
        self.now_us = max(self.now_us, until_us)

    def note(self, *words: object) -> None:
        """Write a line of the transcript."""
        self.transcript.append(f"{self.now_us} {' '.join(map(str, words))}")

    # -- threads -----------------------------------------------------------------------------------

    def enter(self, thread: SimulatedThread, value: Any) -> None:
        """Let a thread run until it waits. From the main thread only."""
        self.current = thread
        try:
            thread.greenlet.switch(value)
        except Exception as error:  # a thread ended by a fault
            error.add_note(f"in {thread.process.name}, {thread.name}, at {self.now_ms} ms, seed {self.seed}")
            self.failure = self.failure or error
        finally:
            self.current = None

    def block(self, timeout_s: float | None = None) -> bool:
        """Wait until `wake` is called for the present thread: True; or for so long: False."""
        thread = self.current
        assert thread is not None, "only a simulated thread can wait"
        thread.process.check()
        thread.token += 1
        token = thread.token
        if timeout_s is not None:
            self.call_at(self.now_us + int(timeout_s * 1e6), lambda: self._resume(thread, token, False), thread.process)
        woken: bool = self.main.switch()
        thread.process.check()
        return woken

    def wake(self, thread: SimulatedThread) -> None:
        """End the wait of a thread, soon."""
        token = thread.token
        self.call_at(self.now_us, lambda: self._resume(thread, token, True), thread.process)

    def _resume(self, thread: SimulatedThread, token: int, woken: bool) -> None:
        if thread.token == token and not thread.is_done:
            thread.token += 1
            self.enter(thread, woken)

    def sleep(self, ms: float) -> None:
        self.block(ms / 1000)

    # -- the end of processes ----------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """End a process as kill -9 does. Its threads unwind, and change nothing any more."""
        if not process.is_dead:
            process.is_dead = True
            self._dying.append(process)
            if self.current is None:
                while self._dying:
                    self._bury(self._dying.pop(0))

    def _bury(self, process: Process) -> None:
        for thread in process.threads:
            if not thread.is_done and thread.greenlet:
                with suppress(Exception):  # what a dead process stumbles over as it unwinds
                    thread.greenlet.throw(Killed)
            thread.is_done = True
        for function in process.at_death:
            function()
        process.threads.clear()
        process.late.clear()


class SimulatedEvent:
    """As `threading.Event`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_set = False
        self._waiting: list[SimulatedThread] = []

    def set(self) -> None:
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._process.sim.wake(thread)

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        self._process.check()
        sim = self._process.sim
        if not self._is_set:
            thread = sim.current
            assert thread is not None
            self._waiting.append(thread)
            sim.block(timeout)
            if thread in self._waiting:
                self._waiting.remove(thread)
        return self._is_set
