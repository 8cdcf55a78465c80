"""Lines of a stream (standard input) into a journal, which an agent ships. Each line is journaled before the next is read.

A full journal is waited for: the program in front of the pipe waits then, too. What was journaled survives a kill.
"""

import os
import select
from collections.abc import Callable
from typing import NamedTuple

from ..audit.model.messages import LOSS_NAMES
from ..runtime.clock import Clock
from ..sdk.journal import JournalSettings, JournalTransport
from ..sdk.transport import LoggerRun
from .errors import AgentError
from .parsers.parser import LineParser
from .tail.framing import frame
from .tail.line_encoder import LineEncoder, LinesAt

READ_BYTES = 65_536
_LOOK_S = 0.2


class StandardInputResult(NamedTuple):
    """What became of the lines."""

    journaled: int
    quarantined: int
    lost: int


class StandardInput:
    """One stream. `run` once."""

    def __init__(
        self,
        topic: str,
        parser: LineParser,
        journal: JournalSettings,
        *,
        application: str,
        instance: str,
        host: str,
        clock: Clock,
        most_line_bytes: int = 65_536,
        patience_ms: int = 3_600_000,
        lateness_ms: int = 60_000,
    ) -> None:
        """`patience_ms`: how long a full journal is waited for; it should be kept with `when_full="block"`."""
        self._limit_bytes = most_line_bytes
        self._patience_ms = patience_ms
        self._clock = clock
        self._instance = instance
        self._encoder = LineEncoder(parser, topic=topic, server_name=host, line_limit_bytes=most_line_bytes)
        run = LoggerRun(
            topic=topic,
            schema=self._encoder.schema,
            record_name=topic,
            application=application,
            instance=instance,
            server_name=host,
            lateness_ms=lateness_ms,
        )
        self._transport = JournalTransport(run, journal, clock)
        self._line = 0
        self._offset = 0
        self._previous_ms: int | None = None
        self._is_inside_long_line = False

    def run(self, read: Callable[[int], bytes], is_stopped: Callable[[], bool]) -> StandardInputResult:
        """Journal what `read` returns until it returns nothing, or until stopped. Raises JournalRefused, JournalNotDurable."""
        self._transport.start()
        rest = b""
        try:
            while not is_stopped() and (data := read(READ_BYTES)):
                rest = self._take(rest + data, is_last=False)
            self._take(rest, is_last=True)
        finally:
            self._transport.close(0)
        ledger = self._transport.ledger()
        lost = sum(count for name, count in ledger.dropped.items() if name in LOSS_NAMES)
        return StandardInputResult(ledger.journaled, ledger.quarantined, lost)

    def _take(self, block: bytes, *, is_last: bool) -> bytes:
        """Journal the lines of a block; return what is behind the last one."""
        if not block:
            return b""
        framed = frame(block, limit_bytes=self._limit_bytes, is_inside_long_line=self._is_inside_long_line, takes_rest=is_last)
        self._is_inside_long_line = framed.is_inside_long_line
        at = LinesAt(
            path="standard input",
            file_id=self._instance,
            offset=self._offset + framed.first_offset,
            line=self._line,
            previous_ms=self._previous_ms,
            at_ms=self._clock.now_ms(),
        )
        found = self._encoder.encode(framed.lines, framed.too_long, (), at)
        for one in found.records:
            if self._transport.take(bytes(one.body), one.timestamp_ms, one.key, self._patience_ms) is not None:
                raise AgentError(f"the journal stayed full for {self._patience_ms} ms: does `headrace agent run` ship it?")
        for record in found.quarantined:
            self._transport.quarantine(record, max_block_ms=self._patience_ms)
        self._previous_ms = found.previous_ms
        self._line += len(framed.lines)
        self._offset += framed.consumed
        return block[framed.consumed :]


def read_from(descriptor: int, is_stopped: Callable[[], bool]) -> Callable[[int], bytes]:
    """Return what reads so many bytes, or fewer, of a file descriptor; nothing at its end, or once stopped."""

    def read(most_bytes: int) -> bytes:
        while not is_stopped():
            if select.select([descriptor], [], [], _LOOK_S)[0]:
                return os.read(descriptor, most_bytes)
        return b""

    return read
