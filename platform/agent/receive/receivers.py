"""All receivers of an agent. They keep running while the shipper restarts, so clients do not notice it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...schema_registry.client import RegistryClient
from ...sdk.encoding.event_encoder import EventEncoder
from ..errors import SettingsRefused
from ..parsers.syslog import SYSLOG_SCHEMA
from ..settings import AgentSettings
from .counts import Counts
from .http_receiver import HttpReceiver
from .http_topic import HttpTopic
from .inbox import ROOT, Inbox, InboxSettings
from .settings import Address, HttpSettings, SyslogSettings, https_from, syslogs_from
from .syslog_receiver import SyslogReceiver

log = get_logger(__name__)


class Receiver(Protocol):
    """Listens from `start` to `stop`."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Receivers:
    """What an agent's `[[syslog]]` and `[[http]]` sections ask for. Raises SettingsRefused with every fault."""

    def __init__(self, settings: AgentSettings, clock: Clock) -> None:
        faults: list[str] = []
        syslogs, https = syslogs_from(settings.syslogs, faults), https_from(settings.https, faults)
        if faults:
            raise SettingsRefused("settings", faults)
        self.root = Path(settings.state) / ROOT
        self.topics = tuple(sorted({*(one.topic for one in syslogs), *(one.topic for one in https)}))
        self._settings = settings
        self._clock = clock
        self._counts: dict[str, Counts] = {}
        self.receivers: list[Receiver] = [self._syslog(one) for one in syslogs]
        by_address: dict[Address, list[HttpTopic]] = {}
        for one in https:
            by_address.setdefault(one.listen, []).append(self._http_topic(one))
        self.receivers += [
            HttpReceiver(address, topics, self._counts_of(f"http:{address}")) for address, topics in by_address.items()
        ]
        self._started: list[Receiver] = []

    def start(self) -> None:
        """Listen everywhere, or nowhere. Raises AgentError, JournalRefused."""
        if self.receivers:
            # Whichever part creates the state's folder first: only our user may read it.
            self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            for one in self.receivers:
                one.start()
                self._started.append(one)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Listen no more, and end the journals: what is in them is shipped by the next agent at the latest."""
        while self._started:
            one = self._started.pop()
            try:
                one.stop()
            except Exception:
                log.error("receiver_not_stopped", exc_info=True)

    def events(self) -> Mapping[str, int]:
        """Return what happened, `receiver.event` → how often, since the start."""
        return {f"{name}.{event}": count for name, counts in self._counts.items() for event, count in counts.totals().items()}

    def _syslog(self, one: SyslogSettings) -> SyslogReceiver:
        inbox = self._make_inbox(one, EventEncoder(SYSLOG_SCHEMA, self._settings.host))
        return SyslogReceiver(one, inbox, self._counts_of(f"syslog:{one.name}"), self._clock)

    def _http_topic(self, one: HttpSettings) -> HttpTopic:
        make: Callable[[EventEncoder], Inbox] = partial(self._make_inbox, one)
        counts = self._counts_of(f"http:{one.name}")
        return HttpTopic(one, make, self._newest_schema, counts, self._clock, host=self._settings.host)

    def _newest_schema(self, subject: str) -> str:
        return RegistryClient(self._settings.registry).latest(subject).schema

    def _make_inbox(self, one: SyslogSettings | HttpSettings, encoder: EventEncoder) -> Inbox:
        settings = InboxSettings(
            root=self.root,
            topic=one.topic,
            application=one.application,
            host=self._settings.host,
            name=f"{self._settings.name}-{one.name}",
            lateness_ms=one.lateness_ms,
            quota_bytes=one.quota_bytes,
            is_durable=one.is_durable,
        )
        return Inbox(settings, encoder, self._clock)

    def _counts_of(self, name: str) -> Counts:
        return self._counts.setdefault(name, Counts())
