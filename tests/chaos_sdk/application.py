"""The application that is killed: threads that log, each event with an id, and the ledger that says what it was told.

Ends cleanly on SIGTERM. With `forks`, its main thread forks once while the others log; the child continues with the same logger,
under ids and a ledger of its own.
"""

import json
import os
import random
import signal
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace.sdk import EventLogger, event_schema
from headrace.sdk.journal import JournalSettings
from tests.chaos_sdk.ledgers import LedgerFile
from tests.chaos_sdk.verdicts import WINDOW_MS

SCHEMA = event_schema("ChaosEvent", [{"name": "id", "type": "string"}, {"name": "pad", "type": "string"}])
CLOSE_TIMEOUT_MS = 30_000


@dataclass(frozen=True, kw_only=True)
class Load:
    """What an application does; as JSON on its way to the nursery."""

    name: str
    topic: str
    folder: str
    """Of the ledgers."""
    seed: int
    threads: int
    pause_us: int
    """0: a tight loop."""
    window_start_ms: int
    """All its events are of this window."""
    forks: bool = False
    bad_one_in: int = 0
    """How often an event does not fit its schema; 0: never."""
    logger: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `EventLogger`."""
    journal: dict[str, Any] | None = None
    """Words of `JournalSettings`; None: direct."""


_asked_to_stop: list[int] = []
"""Of the process, with no lock: a child that gets the signal right after its fork has the parent's handler, and must stop too."""


def _stop(number: int, _: Any) -> None:
    _asked_to_stop.append(number)


class Application:
    """One process's part: begins after the fork, with a ledger of its own."""

    def __init__(self, load: Load, name: str, logger: EventLogger) -> None:
        self._load = load
        self._name = name
        self._logger = logger
        self._ledger = LedgerFile(Path(load.folder) / f"{name}.ledger")
        self._ledger.write("r", logger.instance)

    def begin(self) -> None:
        signal.signal(signal.SIGTERM, _stop)
        self._threads = [threading.Thread(target=self._log, args=(number,)) for number in range(self._load.threads)]
        for thread in self._threads:
            thread.start()

    def end(self, child: int = 0) -> None:
        """Wait for SIGTERM, close the logger, write down its own ledger. A child gets the signal too, if it was not there yet."""
        while not _asked_to_stop:
            time.sleep(0.02)
        if child:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        for thread in self._threads:
            thread.join()
        self._logger.close(CLOSE_TIMEOUT_MS)
        if self._logger.close_error is not None:
            self._ledger.write("x", f"close: {self._logger.close_error!r}")
        ledger = asdict(self._logger.ledger())
        self._ledger.write("c", json.dumps(ledger))

    def _log(self, thread: int) -> None:
        chance = random.Random(f"{self._load.seed}/{self._name}/{thread}")
        number = 0
        while not _asked_to_stop:
            event_id = f"{self._name}.{thread}.{number}"
            is_bad = self._load.bad_one_in > 0 and chance.randrange(self._load.bad_one_in) == 0
            pad: Any = 7 if is_bad else "x" * chance.choice((0, 20, 200))
            at_ms = self._load.window_start_ms + chance.randrange(WINDOW_MS)
            self._ledger.write("a", event_id)
            try:
                was_taken = self._logger.log({"id": event_id, "pad": pad}, event_time_ms=at_ms)
            except Exception as error:
                self._ledger.write("x", f"{event_id}: {error!r}")
                return
            self._ledger.write("t" if was_taken else "q" if is_bad else "f", event_id)
            number += 1
            if self._load.pause_us:
                time.sleep(self._load.pause_us / 1e6)


def run(load: Load) -> None:
    """Be the application until SIGTERM."""
    journal = None if load.journal is None else JournalSettings(**{**load.journal, "root": Path(load.journal["root"])})
    logger = EventLogger(load.topic, SCHEMA, application=load.name, journal=journal, **load.logger)
    application = Application(load, load.name, logger)
    application.begin()
    if load.forks:
        time.sleep(random.Random(load.seed).random() * 0.05)
        # A signal that reaches the child before Python has set it up is forgotten there: it waits until the child has begun.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        child = os.fork()
        if child == 0:
            application = Application(load, f"{load.name}-child", logger)
            application.begin()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        application.end(child)
    else:
        application.end()
