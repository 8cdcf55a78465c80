"""Retires producers that died unsealed, by the rules in the settings: writes what `headrace audit retire-producer` would write.

`due` is pure. A retirement accepts the windows that the run held, and no others; it is void if the run speaks again.
"""

import threading
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from ...client.connection.cluster import Cluster
from ...client.producer.producer import Producer
from ...errors import HeadraceError
from ...runtime.clock import Clock
from ...runtime.lifecycle import StopSignal
from ...runtime.logs import get_logger
from ..model.runs import Run, RunKey, has_lost_reports
from ..publisher import retire
from .settings import RetireRule
from .store.ledger import Ledger

log = get_logger(__name__)

LOOK_EVERY_MS = 5_000
MOST_AT_ONCE = 500
SEND_MS = 10_000
BY = "a rule of the audit's settings"


class Due(NamedTuple):
    """A run that is to be retired."""

    key: RunKey
    reason: str


def due(runs: Iterable[Run], rules: Sequence[RetireRule], *, heard_ms: int, listening_since_ms: int) -> list[Due]:
    """Return the runs that a rule retires. Silence is counted as far as the audit has listened. A run that does not say what it
    holds, or of which a report was lost, is left to a person: its retirement would accept more than what it held.
    """
    found = []
    for run in runs:
        if run.holds is None or run.is_closed or run.retired is not None or has_lost_reports(run):
            continue
        if not run.holds and run.cut_off_ms is None:
            continue  # no window waits for it
        still_ms = heard_ms - max(run.heard_ms, listening_since_ms)
        name = application_of(run.key.instance)
        rule = next((one for one in rules if still_ms > one.after_ms and fnmatchcase(name, one.applications)), None)
        if rule is not None:
            found.append(Due(run.key, rule.reason))
    return found[:MOST_AT_ONCE]


def application_of(instance: str) -> str:
    """Return the application in `host/application/uuid`; an instance that was named otherwise is matched by its whole name."""
    words = instance.split("/")
    return "/".join(words[1:-1]) if len(words) > 2 else instance


class Retiring:
    """The thread that looks for such runs."""

    def __init__(self, bootstrap: str, ledger: Ledger, clock: Clock, rules: Sequence[RetireRule]) -> None:
        self._cluster = Cluster(bootstrap, client_id="headrace-audit-retiring")
        self._producer = Producer(self._cluster, linger_ms=5, clock=clock)
        self._ledger = ledger
        self._clock = clock
        self._rules = rules
        self._stop = StopSignal()
        self._thread = threading.Thread(target=self._run, name="audit-retiring", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        try:
            self._producer.close(0)
        except HeadraceError as error:
            log.warning("retirement_not_written", reason=str(error))
        self._cluster.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._ledger.silent_runs(lambda runs, heard_ms, since_ms: due(
                    runs, self._rules, heard_ms=heard_ms, listening_since_ms=since_ms
                ))  # fmt: skip
                for (instance, epoch), reason in found:
                    retire(self._producer, instance, [epoch], by=BY, reason=reason, timeout_ms=SEND_MS, clock=self._clock)
            except HeadraceError as error:
                log.warning("retirement_not_written", reason=str(error))
            except Exception:
                log.error("not_retiring", exc_info=True)
            self._stop.wait(LOOK_EVERY_MS)
