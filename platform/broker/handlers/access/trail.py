"""The trail of access: what was denied, who failed to log in, who changed something. Lives on the loop thread.

Events of one kind from one client come in floods: a consumer without a right asks again a hundred times a second. So equal events
are counted, and leave once a second: as log lines, and to `sink`. Bounded: further kinds of events are counted as left out, and
an event says how many.

Hot: `denied`, once a denial. One that repeats another of the same second costs 0.4 µs: it is found by what was asked, and neither
its reason nor its words are made. `access/control.py` and `asking.py` call it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ....runtime.logs import get_logger
from ...metrics import BrokerMetrics
from ...rights.rule import Operation, Resource
from .asking import Asker, Fields, Reasons

log = get_logger("headrace.broker.access")

EVERY_MS = 1_000
MOST_KINDS = 1_000
"""Different events in one second; a log line of each, some 300 bytes."""
LONGEST_WORD = 250
"""Characters of a name or a client id that are kept of an event."""

LEFT_OUT = "left_out"
"""The kind of the event that counts those beyond `MOST_KINDS`."""

Event = dict[str, Any]
Denied = tuple[Event, tuple[str, str]]
"""The event of a denial, and its name in the metrics."""
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
        self._denied: dict[tuple[Reasons, Fields, Operation, Resource, str], Denied] = {}
        """Denials of this second, by what was asked of which rules; at most as many as events."""
        self._left_out = 0
        self._is_due = False

    def denied(self, reasons: Reasons, asker: Fields, operation: Operation, resource: Resource, name: str) -> None:
        """Note that a client was denied something; `reasons` says by which rule."""
        denied = self._denied.get((reasons, asker, operation, resource, name))
        if denied is None:
            self._first_denied(reasons, Asker(*asker), operation, resource, name)
            return
        event, key = denied
        event["count"] += 1
        self._metrics.access_denied[key] += 1

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
        self._denied = {}
        if self._left_out:
            none = dict.fromkeys(("principal", "host", "api", "client_id"), "")
            events.append({"time_ms": self._now_ms(), "kind": LEFT_OUT, **none, "count": self._left_out})
            self._left_out = 0
        for event in events:
            log.info("access", **event)
        if events and self.sink is not None:
            self.sink(events)

    def close(self) -> None:
        """Log what is there, when the loop has ended. The topic takes no more."""
        self.sink = None
        self.flush()

    def _first_denied(self, reasons: Reasons, asker: Asker, operation: Operation, resource: Resource, name: str) -> None:
        metrics, key = self._metrics.access_denied, (operation.name, resource.name)
        metrics[key] = metrics.get(key, 0) + 1
        is_full = len(self._events) >= MOST_KINDS  # it is left out, and not worth a decision
        reason = "" if is_full else reasons.reason(asker.principal, asker.host, operation, resource, name)
        event = self._note("denied", asker, operation=key[0], resource=key[1], name=name, reason=reason)
        if event is not None and len(name) + len(asker.client_id) <= LONGEST_WORD and len(self._denied) < MOST_KINDS:
            self._denied[reasons, asker, operation, resource, name] = event, key

    def _note(self, kind: str, asker: Asker, **more: str) -> Event | None:
        """Count an event and return it; None where it was left out."""
        words = {name: word[:LONGEST_WORD] for name, word in more.items()}
        client_id = asker.client_id[:LONGEST_WORD]
        key = (kind, asker.principal, asker.host, asker.api, client_id, *words.values())
        event = self._events.get(key)
        if event is not None:
            event["count"] += 1
            return event
        if len(self._events) >= MOST_KINDS:
            self._metrics.access_events_left_out += 1
            self._left_out += 1
            return None
        event = self._events[key] = {
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
        return event
