"""Plays the agent for a section's files: reads, has chunks acknowledged in order, is killed between any two steps, and begins
again with what it had stored. Every record that an acknowledged chunk holds is a row, once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.agent.errors import SourceUnreadable
from headrace.agent.source import Chunk, Position, Source
from headrace.agent.tail.make import tail_group
from headrace.agent.tail.settings import TailSettings, sections_from
from headrace.agent.tail.tail_group import TailGroup
from headrace.runtime.clock import ManualClock
from headrace.wire.quarantine_record import QuarantineRecord

HOST = "web-1"
AGAIN_MS = 600
"""Between two attempts at what cannot be read now."""
MOST_TRIES = 200
"""So often is a planned range asked for: until a file in the making counts as damaged, and `gone_wait_ms` more."""


def settings(folder: Path, **more: Any) -> TailSettings:
    """Return a section that reads `folder/*.log` as raw lines into the topic `lines`."""
    words: dict[str, Any] = {"topic": "lines", "paths": [f"{folder}/*.log"], "parser": "raw", **more}
    faults: list[str] = []
    (section,) = sections_from([words], faults) or [None]
    assert section is not None, faults
    return section


class Tailing:
    """One agent's life, or several: `kill` loses all but what is stored."""

    def __init__(
        self, section: TailSettings, clock: ManualClock, *, chunk_bytes: int = 1 << 16, tries_again: bool = False
    ) -> None:
        """`tries_again`: a file that cannot be read is tried again after the next scan; else the error is the caller's."""
        self.tries_again = tries_again
        self.section = section
        self.clock = clock
        self.chunk_bytes = chunk_bytes
        self.stored: dict[str, Position] = {}
        """The settled positions, as the agent's state keeps them."""
        self.planned: list[tuple[str, Position, Chunk]] = []
        """Chunks that are planned durably and not acknowledged."""
        self.rows: list[bytes] = []
        self.rows_of: dict[str, list[bytes]] = {}
        self.quarantined: list[QuarantineRecord] = []
        self.begin()

    def begin(self) -> None:
        self.group: TailGroup = tail_group(self.section, host=HOST, agent_name="a", clock=self.clock)
        self.sources: dict[str, Source] = {}
        self.ready: dict[str, Source] = {}
        self.unreadable: dict[str, Source] = {}
        self.unopened: Mapping[str, str] = {}

    def scan(self) -> list[str]:
        """Return the names of what has changed."""
        scan = self.group.scan(self.stored | {name: chunk.end for name, _, chunk in self.planned})
        self.unopened = scan.unopened
        self.ready |= self.unreadable
        self.unreadable = {}
        for source in scan.changed:
            self.stored.setdefault(source.name, source.start)
            self.sources[source.name] = self.ready[source.name] = source
        return [source.name for source in scan.changed]

    def read_one(self) -> bool:
        """Read and plan one chunk; return whether there was one."""
        for name, source in [*self.ready.items()]:
            start = next((chunk.end for of, _, chunk in reversed(self.planned) if of == name), self.stored[name])
            try:
                chunk = source.read(start, self.chunk_bytes)
            except SourceUnreadable:
                if not self.tries_again:
                    raise
                self.unreadable[name] = self.ready.pop(name)
                continue
            if chunk is None:
                del self.ready[name]
                if source.is_ended(start) and start == self.stored[name]:
                    source.remove()
                    source.close()
                    del self.sources[name], self.stored[name]
                continue
            assert chunk.end != start, "a chunk that does not move on is read forever"
            self.planned.append((name, start, chunk))
            return True
        return False

    def acknowledge_one(self) -> bool:
        """Have the oldest planned chunk settled."""
        if not self.planned:
            return False
        name, _, chunk = self.planned.pop(0)
        bodies = [record.body for record in chunk.records]
        self.rows += bodies
        self.rows_of.setdefault(name, []).extend(bodies)
        self.quarantined += chunk.quarantined
        self.stored[name] = chunk.end
        if name in self.sources:
            self.sources[name].release(chunk.end)
        return True

    def run_dry(self) -> None:
        """Scan, read and acknowledge until nothing is left now."""
        self.scan()
        while self.read_one() or self.acknowledge_one():
            pass

    def kill(self) -> None:
        """Lose everything but the state, begin again, and read again what was planned: it must be the same."""
        self.group.close()
        self.begin()
        self.scan()
        for name, start, chunk in self.planned:
            if name in self.sources:
                found = self._read_again(name, start, chunk.end)
                assert found.end == chunk.end
                assert (list(found.records), list(found.quarantined)) == (list(chunk.records), list(chunk.quarantined))

    def _read_again(self, name: str, start: Position, end: Position) -> Chunk:
        for tries in range(MOST_TRIES + 1):
            try:
                return self.sources[name].read_again(start, end)
            except SourceUnreadable:
                if not self.tries_again or tries == MOST_TRIES:
                    raise
                self.clock.advance(AGAIN_MS)
                self.scan()
        raise AssertionError

    def lines(self, bodies: list[bytes] | None = None) -> list[str]:
        """Return the texts of raw lines."""
        return [line_of(body) for body in (self.rows if bodies is None else bodies)]


def line_of(body: bytes) -> str:
    """Return the line in the Avro body of a raw line: event time, server, line."""
    at = 0
    while body[at] & 0x80:
        at += 1
    at += 1
    for last in (False, True):
        length = shift = 0
        while True:
            length |= (body[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not body[at - 1] & 0x80:
                break
        length >>= 1
        if last:
            return body[at : at + length].decode()
        at += length
    raise AssertionError
