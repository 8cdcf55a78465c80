"""The ledger of one application process: a file of lines, each written with one write(2). Written by the application itself, so
that it stands whatever is killed; read by the check.

    r <instance>          the run's name in the audit
    a <id>                about to call `log`
    t <id>                `log` returned True
    f <id>                `log` returned False for an event that fits its schema: dropped, and counted
    q <id>                `log` returned False for an event that does not fit: in quarantine, or counted
    x <what>              something raised that must not
    c <json>              closed cleanly: the logger's own ledger
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class LedgerFile:
    """The writing end. Any thread may write: a line is one append."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)

    def write(self, kind: str, words: str) -> None:
        os.write(self._file, f"{kind} {words}\n".encode())


@dataclass
class ProcessLedger:
    """What one process attempted and was answered."""

    name: str
    was_killed: bool
    may_give_up: bool = False
    """Its journal drops the oldest events when it is full: some that it took."""
    instance: str | None = None
    attempted: list[str] = field(default_factory=list)
    """In order, thread by thread interleaved."""
    taken: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    closed: dict[str, Any] | None = None

    @property
    def undecided(self) -> set[str]:
        """Return the events whose call of `log` had begun and not returned."""
        return set(self.attempted) - self.taken - self.dropped - self.refused

    @property
    def is_untouched(self) -> bool:
        """Return whether this is a forked child that never called `log`: its logger never began a run of its own."""
        return self.name.endswith("-child") and not self.attempted

    @property
    def threads(self) -> set[str]:
        return {thread_of(event_id) for event_id in self.attempted}


def thread_of(event_id: str) -> str:
    """Return the name of the thread in an id of the form `process.thread.number`."""
    return event_id.rpartition(".")[0]


def number_of(event_id: str) -> int:
    return int(event_id.rpartition(".")[2])


def read_ledger(path: Path, *, was_killed: bool, may_give_up: bool = False) -> ProcessLedger:
    """Return what a process wrote. A last line without its end was never whole: the process died in it."""
    read = ProcessLedger(path.stem, was_killed, may_give_up)
    for line in path.read_bytes().split(b"\n")[:-1]:
        kind, _, words = line.decode().partition(" ")
        match kind:
            case "r":
                read.instance = words
            case "a":
                read.attempted.append(words)
            case "t":
                read.taken.add(words)
            case "f":
                read.dropped.add(words)
            case "q":
                read.refused.add(words)
            case "x":
                read.faults.append(words)
            case "c":
                read.closed = json.loads(words)
            case _:
                raise ValueError(f"{path}: a line of no known kind: {line!r}")
    return read
