"""The agent's process: one `Shipper` after another until it is asked to stop, and what is shown of it meanwhile."""

import resource
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.clock import SystemClock
from ...runtime.lifecycle import StopSignal
from ...runtime.logs import get_logger
from ...runtime.status import StatusFile
from ...schema_registry.client import RegistryClient
from ..errors import SettingsRefused, StateRefused
from ..receive.receivers import Receivers
from ..settings import AgentSettings
from ..shipping.shipper import Shipper
from ..source_kinds import check, groups_of
from .pages import Pages
from .snapshot import Snapshot, snapshot_of

log = get_logger(__name__)

STATUS_FILE = "status.json"
"""In the state's folder: what `headrace agent status` shows."""
SNAPSHOT_EVERY_MS = 1_000


class Agent:
    """One agent. The constructor only stores."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self._clock = SystemClock()
        self._last: Snapshot | None = None
        self._next_ms = 0
        self._status = StatusFile(settings.status_file, self._clock)
        self._own_status = StatusFile(Path(settings.state) / STATUS_FILE, self._clock)

    def run(self, stop: StopSignal) -> None:
        """Ship until asked to stop. Raises StateRefused, SettingsRefused, AgentError at the start.

        A fault later on ends this turn's work as a crash would; the agent continues from its state.
        """
        _allow_many_files()
        self._status.write("starting")
        check(self.settings)
        receivers = Receivers(self.settings, self._clock)
        pages = None
        if self.settings.metrics_port:
            token = self.settings.metrics_token_file
            pages = Pages(
                self.settings.metrics_port,
                lambda: self._last,
                self._clock.now_ms,
                host=self.settings.metrics_host,
                token_file=None if token is None else Path(token),
            )
            pages.start()
        backoff, attempt, is_first = Backoff(longest_ms=10_000), 0, True
        try:
            # Before the cluster is asked for anything: what comes in is journaled.
            receivers.start()
            while not stop.is_set():
                turns = 0
                try:
                    for _ in self._ship(stop, receivers):
                        turns, is_first = turns + 1, False
                except (StateRefused, SettingsRefused):
                    if is_first:
                        raise
                    log.error("agent_begins_again", exc_info=True)
                except Exception as error:
                    log.error("agent_begins_again", then="it continues from its state", exc_info=True)
                    self._show_fault(repr(error))
                if not stop.is_set():
                    attempt = 0 if turns > 1_000 else attempt + 1
                    stop.wait(backoff.wait_ms(attempt))
        finally:
            receivers.stop()
            if pages is not None:
                pages.stop()
            self._status.write("stopping")

    def _ship(self, stop: StopSignal, receivers: Receivers):  # type: ignore[no-untyped-def]
        """Yield after each turn."""
        groups = groups_of(self.settings, self._clock, receivers)
        registry = RegistryClient(self.settings.registry, cache_folder=Path(self.settings.state) / "schemas")
        shipper = Shipper(self.settings, groups, registry, self._clock)
        try:
            shipper.start()
            log.info("agent_runs", agent=self.settings.instance, state=self.settings.state, brokers=self.settings.brokers)
            while not stop.is_set():
                shipper.turn()
                self._show(shipper)
                yield
            receivers.stop()
            shipper.finish()
            self._show(shipper, is_last=True)
            reports_left = shipper.audit_reports.reports_under_way
            log.info("agent_stopped", batches_left=shipper.delivery.planned.count, reports_left=reports_left)
        finally:
            shipper.close()

    def _show(self, shipper: Shipper, *, is_last: bool = False) -> None:
        now_ms = self._clock.now_ms()
        if now_ms < self._next_ms and not is_last:
            return
        self._next_ms = now_ms + SNAPSHOT_EVERY_MS
        try:
            self._last = snapshot_of(shipper, now_ms)
        except HeadraceError as error:
            log.warning("status_not_taken", reason=str(error))
            return
        state = "stopping" if is_last else "ready" if self._last.is_ready else "starting"
        self._own_status.write(state, beat_every_ms=3 * SNAPSHOT_EVERY_MS, **_facts(self._last))
        self._status.write(state, reason=self._last.reason, beat_every_ms=3 * SNAPSHOT_EVERY_MS)

    def _show_fault(self, reason: str) -> None:
        """The last turn was cut short: what was shown before it does not hold any more."""
        self._status.write("starting", reason=reason)
        if self._last is not None:
            self._last = replace(self._last, is_ready=False, reason=reason, trouble=[reason])
            self._own_status.write("starting", beat_every_ms=3 * SNAPSHOT_EVERY_MS, **_facts(self._last))


def _facts(snapshot: Snapshot) -> dict[str, object]:
    words = snapshot.words()
    del words["at_ms"]
    return words


def _allow_many_files() -> None:
    """Allow as many open files as the system lets this process have: each journal and each file takes one or two."""
    with suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
