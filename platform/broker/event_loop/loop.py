"""The broker's one loop: descriptors, timers, calls from other threads, and calls at the end of a turn.

Everything that it calls runs on its thread and must not block. A call that fails is logged (once a second); the loop continues.
Knows nothing of sockets or requests."""

import time
from collections import deque
from collections.abc import Callable

from ...runtime.logs import get_logger
from ...runtime.rate_limited_log import RateLimitedLog
from ..metrics import clock_ns
from .poller import EpollPoller, Poller
from .timers import Timers

log = get_logger(__name__)

LONGEST_WAIT_MS = 1_000
EVENTS_A_TURN = 512
GATHER_US = 500
"""Length of the pause. Compared with 100 it saves a fifth to a quarter of the processor time at 50 messages a request."""
QUIET_MS = 2
"""A connection that sent a request within this time counts as active. The loop does not pause while one is active whose peer
waits for single responses."""

OnEvent = Callable[[int], None]
"""Called with the epoll mask."""


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Loop:
    """Runs until `stop`."""

    def __init__(
        self,
        poller: Poller | None = None,
        *,
        monotonic_ms: Callable[[], int] = monotonic_ms,
        clock_ns: Callable[[], int] = clock_ns,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock_ns` measures slices of work; `pause` waits for so many seconds, with nothing else done."""
        self._poller: Poller = EpollPoller() if poller is None else poller
        self._monotonic_ms, self.clock_ns, self._pause = monotonic_ms, clock_ns, pause
        self._wake = self._poller.wake
        self.modify = self._poller.modify
        self._on_event: dict[int, OnEvent] = {}
        self._timers = Timers()
        self._posted: deque[Callable[[], None]] = deque()
        self._turn_end: list[Callable[[], None]] = []
        self._is_woken = False
        self._gathering: set[int] = set()
        self._has_much = False
        self._active_ms = 0
        self._faults = RateLimitedLog(log, lambda: self.now_ms)
        self._running = True
        self.now_ms = monotonic_ms()
        """Monotonic time at the beginning of this turn: exact enough for every deadline."""
        self._on_event[self._poller.wake_fd] = self._drain_wake

    def register(self, fd: int, mask: int, on_event: OnEvent) -> None:
        self._poller.register(fd, mask)
        self._on_event[fd] = on_event

    def unregister(self, fd: int) -> None:
        """Forget the descriptor; call it before closing."""
        if self._on_event.pop(fd, None) is not None:
            self._poller.unregister(fd)

    def post(self, function: Callable[[], None]) -> None:
        """Call `function` on the loop thread soon. Any thread may call this."""
        self._posted.append(function)
        if not self._is_woken:
            self._is_woken = True
            self._wake()

    def call_at(self, at_ms: int, function: Callable[[], None]) -> None:
        """Call `function` once, at monotonic `at_ms` or a little later."""
        self._timers.call_at(at_ms, function)

    def at_turn_end(self, function: Callable[[], None]) -> None:
        """Call `function` once, when this turn's events have been handled."""
        self._turn_end.append(function)

    def let_gather(self, fd: int, *, has_much: bool) -> None:
        """Note for this turn's event of `fd` that its peer waits for no single response, and whether it had sent much.

        The loop pauses before its next poll when three things hold: this was noted for every event of the turn, none had sent
        much, and no other event or turn-end call came within `QUIET_MS`. Several requests then come in one read and their
        responses leave in one send, as network cards coalesce interrupts. A request of 10 KB alone in its turn takes 60 us, one
        of six 17-25, one of twenty-four 13.
        """
        self._gathering.add(fd)
        self._has_much |= has_much

    def stop(self) -> None:
        """End `run` after its present turn. Any thread may call this."""
        self.post(self._stop)

    def run(self) -> None:
        """Turn until stopped."""
        poll, now_ms = self._poller.poll, self._monotonic_ms
        while self._running:
            wait_ms = 0 if self._turn_end else self._timers.wait_ms(now_ms(), LONGEST_WAIT_MS)
            events = poll(wait_ms / 1000, EVENTS_A_TURN)
            self.now_ms = now_ms()
            self._turn(events)

    def close(self) -> None:
        # A thread that posts late must not write to a descriptor that is closed or has been reused.
        self._is_woken = True
        self._poller.close()

    def _turn(self, events: list[tuple[int, int]]) -> None:
        for fd, mask in events:
            on_event = self._on_event.get(fd)
            if on_event is not None:
                try:
                    on_event(mask)
                except Exception:
                    self._faults.error("loop_event_failed", fd=fd, exc_info=True)
        for function in self._timers.due(self.now_ms):
            self._call(function)
        for _ in range(len(self._posted)):
            self._call(self._posted.popleft())
        while self._turn_end:
            functions, self._turn_end = self._turn_end, []
            for function in functions:
                self._call(function)
            self._gathering.clear()
        if len(self._gathering) < len(events):
            self._active_ms = self.now_ms
        elif events and not self._has_much and self.now_ms - self._active_ms > QUIET_MS:
            self._pause(GATHER_US / 1e6)
        self._gathering.clear()
        self._has_much = False

    def _call(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception:
            self._faults.error("loop_call_failed", exc_info=True)

    def _drain_wake(self, mask: int) -> None:
        self._poller.drain()
        # After the read, never before: else the read could consume the wake-up of a thread that posts in between, and no post
        # would wake the loop again. This turn still calls what such a thread has posted.
        self._is_woken = False

    def _stop(self) -> None:
        self._running = False
