"""Sends an access log as events: each line with its own time, a bad line to quarantine, every line counted in the audit.

Lines go through the SDK's `EventLogger`, like an application's own events. The windows are sealed once, at the end: until then a
line may have any time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from ...agent.parsers.access_log import event_time_of, parse_line
from ...agent.parsers.parser import UnparsableLine
from ...audit.model.windows import WINDOW_MS, dated, window_start_ms
from ...errors import HeadraceError
from ...runtime.clock import Clock
from ...wire.quarantine_record import FileOrigin, Origin, Stage, WindowFrom
from .log_lines import LINE_LIMIT_BYTES, LogFile, LogLine, LogUnreadable

TOLD_EVERY_LINES = 256
"""The progress callback runs once in this many lines: reading a clock for each line would cost more than parsing it."""


class Logger(Protocol):
    """The part of `sdk.EventLogger` that a replay needs."""

    def log(self, event: dict[str, str | int | None], /, *, event_time_ms: int) -> bool: ...

    def quarantine(
        self,
        payload: bytes,
        /,
        *,
        code: str,
        reason: str,
        origin: Origin,
        window_start_ms: int,
        window_from: WindowFrom,
        stage: Stage,
    ) -> None: ...

    def close(self) -> None: ...

    @property
    def acknowledged_count(self) -> int:
        """Return how many events the cluster has acknowledged."""
        ...


class Stopping(Protocol):
    """The part of `runtime.lifecycle.StopSignal` that a replay needs."""

    def is_set(self) -> bool: ...

    def wait(self, timeout_ms: int) -> bool: ...


@dataclass(slots=True, kw_only=True)
class ReplayResult:
    """The result of a replay."""

    lines: int = 0
    taken: int = 0
    """Events handed to the logger."""
    sent: int = 0
    """Those events that the cluster acknowledged; known at the end."""
    quarantined: int = 0
    dropped: int = 0
    """Events for which the buffer stayed full; the audit counts them as `dropped`."""
    windows: set[int] = field(default_factory=set)
    """Starts (ms) of the windows of all lines, quarantined ones included."""
    stopped_at_line: int | None = None
    """The last line that was sent before a signal or an unreadable file ended the replay."""
    failures: list[str] = field(default_factory=list)
    is_sealed: bool = False

    @property
    def is_whole(self) -> bool:
        """Return whether every line is delivered or quarantined, and the audit has every count."""
        return self.is_sealed and not self.failures and not self.dropped and self.stopped_at_line is None


class Replay:
    """One run over one log."""

    def __init__(
        self,
        logger: Logger,
        path: Path,
        *,
        stop: Stopping,
        clock: Clock,
        rate: float | None = None,
        most_lines: int | None = None,
        window_ms: int = WINDOW_MS,
        on_progress: Callable[[int, float], None] = lambda lines, share: None,
    ) -> None:
        """`rate` limits the lines per second. Lines behind `most_lines` are not sent. `on_progress(lines, share of the file)` is
        called every few hundred lines.
        """
        self._logger = logger
        self._path = path.absolute()
        self._stop = stop
        self._clock = clock
        self._rate = rate
        self._most_lines = most_lines
        self._window_ms = window_ms
        self._on_progress = on_progress
        self._previous_ms: int | None = None
        self.result = ReplayResult()

    def run(self) -> ReplayResult:
        """Send every line, close the logger, and return the result. Raises only if the file cannot be opened."""
        result = self.result
        with LogFile(self._path) as log:
            began_ms = self._clock.monotonic_ms()
            try:
                for line in islice(log.lines(), self._most_lines):
                    if self._is_stopped(began_ms, result.lines):
                        result.stopped_at_line = result.lines
                        break
                    self._take(line)
                    result.lines = line.number
                    if line.number % TOLD_EVERY_LINES == 0 or self._rate is not None:
                        self._on_progress(line.number, log.progress)
            except LogUnreadable as error:
                result.failures.append(str(error))
                result.stopped_at_line = result.lines
            except HeadraceError as error:
                result.failures.append(f"line {result.lines + 1} was not taken: {error}")
                result.stopped_at_line = result.lines
        try:
            self._logger.close()
            result.is_sealed = True
        except HeadraceError as error:
            result.failures.append(str(error))
        result.sent = self._logger.acknowledged_count
        return result

    def _take(self, line: LogLine) -> None:
        try:
            if line.is_too_long:
                raise UnparsableLine(f"the line is longer than {LINE_LIMIT_BYTES} bytes")
            request = parse_line(line.content)
        except UnparsableLine as error:
            self._quarantine(line, str(error))
            return
        self._previous_ms = request.time_ms
        self._note_window(request.time_ms)
        if self._logger.log(request.event(), event_time_ms=request.time_ms):
            self.result.taken += 1
        else:
            self.result.dropped += 1

    def _quarantine(self, line: LogLine, reason: str) -> None:
        time_ms, window_from = dated(event_time_of(line.content), previous_ms=self._previous_ms, clock_ms=self._clock.now_ms())
        self._note_window(time_ms)
        self._logger.quarantine(
            line.content.rstrip(b"\r\n"),
            code="unparsable_line",
            reason=f"line {line.number}: {reason}",
            origin=FileOrigin(file=str(self._path), line=line.number),
            window_start_ms=window_start_ms(time_ms, self._window_ms),
            window_from=window_from,
            stage="replay",
        )
        self.result.quarantined += 1

    def _note_window(self, time_ms: int) -> None:
        self.result.windows.add(window_start_ms(time_ms, self._window_ms))

    def _is_stopped(self, began_ms: int, lines: int) -> bool:
        """Return whether a stop was requested, after waiting until the next line is due."""
        if self._rate is not None:
            early_ms = began_ms + int(lines * 1000 / self._rate) - self._clock.monotonic_ms()
            # The operating system does not keep shorter waits; the next line's wait makes up for them.
            if early_ms >= 2:
                return self._stop.wait(early_ms)
        return self._stop.is_set()
