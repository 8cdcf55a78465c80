"""A process's state in a small JSON file, and for systemd. The supervisor reads the file where a process has no port to probe.

The file is replaced whole: no reader sees half of it. On a full disk it stays as it was, and the process continues: its work may
need no disk, and a reader of the file sees by `beat_every_ms` that it is old.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .clock import Clock, SystemClock
from .logs import get_logger
from .service_manager import ServiceManager
from .whole_file import is_disk_full, replace_file

log = get_logger(__name__)


class Prepared(NamedTuple):
    """A fact that is large and seldom changes: its JSON text is made once for many files, its value when it is read."""

    text: str
    value: Callable[[], Any]


def plain(fact: Any) -> Any:
    """Return the value of a fact, prepared or not."""
    return fact.value() if isinstance(fact, Prepared) else fact


class LastStatus(NamedTuple):
    """The last status that a process wrote of itself."""

    state: str
    facts: Mapping[str, Any]
    monotonic_ms: int

    @property
    def beats(self) -> bool:
        """Return whether the process promised to write again at an interval."""
        return "beat_every_ms" in self.facts


class StatusFile:
    """Writes `{"state", "pid", "at_ms", ...facts}`. Without a path it writes no file."""

    def __init__(self, path: Path | None, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._is_full = False
        self._manager = ServiceManager()
        self.last: LastStatus | None = None
        """May be read on any thread: it is replaced, never changed."""

    def write(self, state: str, **facts: Any) -> None:
        """Replace the file; `state` is `starting`, `ready`, `stalled` or `stopping`, `facts` any JSON values, or `Prepared` ones.

        The fact `reason` says why a process is not ready, `notice` what an operator has ordered of one that is well.
        `beat_every_ms` promises a new file at least that often. `pid` replaces this process's own. Raises OSError, but for a full
        disk, which is logged once.
        """
        self.last = LastStatus(state, facts, self._clock.monotonic_ms())
        self._manager.tell(state, facts.get("reason"))
        if self._path is None:
            return
        words = {"state": state, "pid": os.getpid(), "at_ms": self._clock.now_ms(), **facts}
        try:
            replace_file(self._path, _json(words).encode())
        except OSError as error:
            if not is_disk_full(error):
                raise
            if not self._is_full:
                log.error("status_not_written", path=str(self._path), reason=str(error))
            self._is_full = True
        else:
            self._is_full = False


def _json(words: Mapping[str, Any]) -> str:
    text = json.dumps({name: fact for name, fact in words.items() if not isinstance(fact, Prepared)})
    prepared = "".join(f", {json.dumps(name)}: {fact.text}" for name, fact in words.items() if isinstance(fact, Prepared))
    return f"{text[:-1]}{prepared}}}" if prepared else text


def read_status(path: Path) -> dict[str, Any] | None:
    """Return what a process wrote last, or None if there is no file. Raises OSError, ValueError for another content than JSON."""
    try:
        words = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return words if isinstance(words, dict) else None
