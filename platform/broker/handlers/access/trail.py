"""The trail of access: what was denied, who failed to log in, who changed something. Lives on the loop thread.

Events of one kind from one client come in floods: a consumer without a right asks again a hundred times a second. So equal events
are counted, and leave once a second: as log lines, and to `sink`. Bounded: further kinds of events are counted as left out.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ....runtime.logs import get_logger
from ...metrics import BrokerMetrics
from ...rights.rule import Operation, Resource
from .asking import Asker

log = get_logger("headrace.broker.access")

EVERY_MS = 1_000
MOST_KINDS = 1_000
"""Different events in one second; a log line of each, some 300 bytes."""
LONGEST_WORD = 250
"""Characters of a name or a client id that are kept of an event."""

Event = dict[str, Any]
Sink = Callable[[Sequence[Event]], None]


class Timer(Protocol):
    """The part of the loop that is used here."""

    @property
    def now_ms(self) -> int: ...

    def call_at(self, when_ms: int, call: Callable[[], None]) -> object: ...


class Trail:
    """Counts and hands on."""

    def __init__(self, timer: Timer, now_ms: Callable[[], int], metrics: BrokerMetrics, sink: Sink | None = None) -> None:
        """`now_ms` is the wall clock. `sink` takes the events of a second."""
        self._timer = timer
        self._now_ms = now_ms
        self._metrics = metrics
        self.sink = sink
        self._events: dict[tuple[str, ...], Event] = {}
        self._is_due = False

    def denied(self, asker: Asker, operation: Operation, resource: Resource, name: str, reason: str) -> None:
        """Note that a client was denied something, and the rule that denied it."""
        denied, key = self._metrics.access_denied, (operation.name, resource.name)
        denied[key] = denied.get(key, 0) + 1
        self._note("denied", asker, operation=operation.name, resource=resource.name, name=name, reason=reason)

    def login_failed(self, principal: str, host: str, mechanism: str, reason: str) -> None:
        """Note that a client did not prove who it is. `principal` is what it claimed."""
        self._note("login_failed", Asker(principal, host, "SaslAuthenticate"), mechanism=mechanism, reason=reason)

    def changed(self, asker: Asker, names: Sequence[str]) -> None:
        """Note that a client may carry out an administrative request, and what it names."""
        self._note("changed", asker, name=", ".join(names))

    def flush(self) -> None:
        """Hand on what is there."""
        self._is_due = False
        events, self._events = [*self._events.values()], {}
        for event in events:
            log.info("access", **event)
        if events and self.sink is not None:
            self.sink(events)

    def _note(self, kind: str, asker: Asker, **more: str) -> None:
        words = {name: word[:LONGEST_WORD] for name, word in more.items()}
        client_id = asker.client_id[:LONGEST_WORD]
        key = (kind, asker.principal, asker.host, asker.api, client_id, *words.values())
        event = self._events.get(key)
        if event is not None:
            event["count"] += 1
            return
        if len(self._events) >= MOST_KINDS:
            self._metrics.access_events_left_out += 1
            return
        self._events[key] = {
            "time_ms": self._now_ms(),
            "kind": kind,
            "principal": asker.principal[:LONGEST_WORD],
            "host": asker.host,
            "api": asker.api,
            "client_id": client_id,
            **words,
            "count": 1,
        }
        if not self._is_due:
            self._is_due = True
            self._timer.call_at(self._timer.now_ms + EVERY_MS, self.flush)
