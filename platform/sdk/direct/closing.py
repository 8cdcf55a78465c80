"""The end of a logger that sends for itself, within its time: each step has what is left, and one that fails does not end it.

A second of the time is kept for the last report, which seals the run; a quarter where that is less. A thread in a request that
nobody answers is left behind, and ends unexpectedly.
"""

from collections.abc import Callable

from ...audit.publisher import ProducerReporter, ReportNotSent
from ...errors import HeadraceError
from ...runtime.clock import Clock
from ..errors import NotSealed

SEAL_MS = 1_000
JOINS_MS = 600
"""What the waits for three threads take together, at most."""


class Ending:
    """One end: its time, and what its steps met."""

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._deadline_ms = clock.monotonic_ms() + timeout_ms - min(JOINS_MS, timeout_ms // 4)
        self._for_seal_ms = min(SEAL_MS, timeout_ms // 4)
        self.failures: list[HeadraceError] = []

    def left_ms(self) -> int:
        return max(0, self._deadline_ms - self._clock.monotonic_ms())

    def left_for_events_ms(self) -> int:
        return max(0, self.left_ms() - self._for_seal_ms)

    def attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except HeadraceError as error:
            self.failures.append(error)

    def seal(self, reporter: ProducerReporter, who: str, *, is_due: bool) -> None:
        """Report the end, if the audit is to know of it."""
        try:
            if is_due:
                if not reporter.await_turn(self.left_ms()):
                    raise ReportNotSent("an earlier report is still under way")
                reporter.seal_and_close(self.left_ms())
        except HeadraceError as error:
            self.failures.insert(0, NotSealed(f"{who} ends unsealed: {error}"))

    def check(self) -> None:
        """Raise the gravest failure: a seal that did not arrive, else the first."""
        if self.failures:
            raise self.failures[0]
