"""`/metrics`, `/healthz`, `/readyz` and `/status` of a process that says of itself in a `StatusFile` how it is.

The pages show what was said last, and how long ago; they ask the working threads nothing, so that a process that hangs is seen.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..clock import Clock
from ..http_access import HttpAccess
from ..layout import LOOPBACK
from ..status import LastStatus, StatusFile
from .http_server import HttpServer, Page, Pages
from .process_metrics import process_metrics
from .text_format import CONTENT_TYPE, Metric, one, text

LATE_MS = 60_000
"""A process that has said nothing for this long is not ready: its work hangs."""
DEAD_MS = 180_000
"""One that has said nothing for this long is to be started again. Longer than every wait of every process's turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesAddress:
    """Where the pages are served. Without a port they are not."""

    port: int | None = None
    """0: any free one."""
    host: str = LOOPBACK
    token_file: Path | None = None
    """Its first line is wanted by /metrics and /status; needed where others than this machine reach `host`."""


class StatusPages:
    """The pages of one process, between `start` and `stop`."""

    def __init__(
        self,
        role: str,
        address: PagesAddress,
        status: StatusFile,
        clock: Clock,
        metrics: Callable[[Mapping[str, Any]], list[Metric]],
    ) -> None:
        """`metrics`: the process's own, from the facts that it said last. Raises Unprotected."""
        self._role = role
        self._status = status
        self._clock = clock
        self._metrics = metrics
        self._server: HttpServer | None = None
        if address.port is not None:
            HttpAccess(token_file=address.token_file).check(address.host, how="--metrics-token-file")
            self._server = HttpServer(
                address.host,
                address.port,
                self.pages(),
                token_file=address.token_file,
                host_setting="--metrics-host",
                port_setting="--metrics-port",
            )

    @property
    def port(self) -> int | None:
        """The port listened on, after `start`; None where the pages are not served."""
        return None if self._server is None else self._server.port

    def start(self) -> None:
        """Raises AddressInUse."""
        if self._server is not None:
            self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    def pages(self) -> Pages:
        return {"/metrics": self._metrics_page, "/healthz": self._healthz, "/readyz": self._readyz, "/status": self._status_page}

    def _silent_ms(self, last: LastStatus) -> int:
        return self._clock.monotonic_ms() - last.monotonic_ms

    def why_not_ready(self) -> str | None:
        """Return one line, None for a process that is ready."""
        last = self._status.last
        if last is None:
            return "it has not begun"
        if last.state != "ready":
            return f"{last.state}: {last.facts.get('reason') or 'no reason is known'}"
        silent_ms = self._silent_ms(last)
        return f"it has said nothing for {silent_ms} ms" if last.beats and silent_ms > LATE_MS else None

    def _healthz(self) -> Page:
        last = self._status.last
        if last is not None and last.beats and (silent_ms := self._silent_ms(last)) > DEAD_MS:
            return _plain(503, f"it has said nothing for {silent_ms} ms: start it again")
        return _plain(200, "alive")

    def _readyz(self) -> Page:
        reason = self.why_not_ready()
        return _plain(200, "ready") if reason is None else _plain(503, reason)

    def _status_page(self) -> Page:
        last = self._status.last
        if last is None:
            return _plain(503, "it has not begun")
        return Page(200, "application/json", json.dumps({"state": last.state, **last.facts}).encode())

    def _metrics_page(self) -> Page:
        last = self._status.last
        ready = Metric(f"headrace_{self._role}_ready", "gauge", "1 while /readyz answers 200.", one(self.why_not_ready() is None))
        own = self._metrics({} if last is None else last.facts)
        return Page(200, CONTENT_TYPE, text([ready, *own, *process_metrics(self._role)]).encode())


def _plain(status: int, words: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", f"{words}\n".encode())
