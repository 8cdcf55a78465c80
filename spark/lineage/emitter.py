"""Sends events with the official client, in a thread of its own: the transport can be away or slow, and no load waits for it.

Configured as OpenLineage's client is: `OPENLINEAGE_URL`, `OPENLINEAGE__TRANSPORT__…`, or `openlineage.yml` (named by
`OPENLINEAGE_CONFIG`, in the working folder or in `~/.openlineage`). Without any of these nothing is sent and the client is not
imported.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...runtime.logs import get_logger

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent

log = get_logger(__name__)

QUEUED_EVENTS = 16
"""A run has two events; more than this are dropped and counted."""
CLOSE_MS = 5_000
"""How long the end of a run waits for its events. Then they are counted as lost."""


class Emitter:
    """Sends events one after another. `emit` never waits and never raises."""

    def __init__(self) -> None:
        self._events: queue.Queue[RunEvent | None] = queue.Queue(QUEUED_EVENTS)
        self._emitted = 0
        self._sent = 0
        self._reason = ""
        # A daemon: a transport that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="lineage", daemon=True)
        self._thread.start()

    def emit(self, event: "RunEvent") -> None:
        self._emitted += 1
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._reason = self._reason or f"more than {QUEUED_EVENTS} events wait"

    def close(self) -> None:
        """Wait until every event is sent, at most `CLOSE_MS`. Losses are counted and logged once, here."""
        deadline = time.monotonic() + CLOSE_MS / 1000
        try:
            self._events.put(None, timeout=CLOSE_MS / 1000)
        except queue.Full:
            pass
        self._thread.join(max(0.0, deadline - time.monotonic()))
        sent = self._sent
        if sent < self._emitted:
            reason = self._reason or f"the transport took longer than {CLOSE_MS} ms"
            log.warning("lineage_not_sent", sent=sent, lost=self._emitted - sent, reason=reason)

    def _run(self) -> None:
        try:
            client = _client()
        except Exception as error:  # whatever its configuration or a transport of the user's raises: a load continues
            self._reason = f"OpenLineage's client cannot be made: {type(error).__name__}: {error}"
            return
        while (event := self._events.get()) is not None:
            try:
                client.emit(event)
                self._sent += 1
            except Exception as error:
                self._reason = self._reason or f"{type(error).__name__}: {error}"
        client.close(0)


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the client would find a transport, by the places in which it looks."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OPENLINEAGE_URL") or any(name.startswith("OPENLINEAGE__TRANSPORT") for name in environment):
        return True
    named = environment.get("OPENLINEAGE_CONFIG")
    places = [Path("openlineage.yml"), Path("~/.openlineage/openlineage.yml").expanduser()]
    return any(path.is_file() for path in ([Path(named)] if named else []) + places)


def _client() -> "OpenLineageClient":
    from openlineage.client import OpenLineageClient

    # Both log every attempt; `close` logs the losses once.
    for name in ("urllib3", "openlineage"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Its facet names the repository of the working folder, which is not where this code comes from.
    return OpenLineageClient(config={"facets": {"source_code_location": {"disabled": True}}})
