"""/metrics, /healthz, /readyz and /status of an agent. Shows the last snapshot; asks the agent's thread nothing."""

import json
from collections.abc import Callable
from pathlib import Path

from ...runtime.http_access import HttpAccess
from ...runtime.layout import LOOPBACK
from ...runtime.monitoring.http_server import HttpServer, Page
from ...runtime.monitoring.listening import AddressInUse
from ...runtime.monitoring.process_metrics import process_metrics
from ...runtime.monitoring.text_format import CONTENT_TYPE, Metric, each, one, text
from ..errors import AgentError
from .snapshot import Snapshot, SourceState

PREFIX = "headrace_agent_"
LATE_MS = 30_000
"""An agent whose snapshot is older than this is not ready: a turn takes too long, or its disk does not answer."""
_PLAIN = "text/plain; charset=utf-8"


class Pages:
    """The pages, between `start` and `stop`."""

    def __init__(
        self,
        port: int,
        last: Callable[[], Snapshot | None],
        now_ms: Callable[[], int],
        *,
        host: str = LOOPBACK,
        token_file: Path | None = None,
    ) -> None:
        """Raises Unprotected: who serves others than this machine asks them for a token."""
        HttpAccess(token_file=token_file).check(host, how="metrics_token_file")
        self._last = last
        self._now_ms = now_ms
        pages = {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz, "/status": self.status}
        self._server = HttpServer(
            host, port, pages, token_file=token_file, host_setting="metrics_host", port_setting="metrics_port"
        )

    @property
    def port(self) -> int:
        return self._server.port

    def start(self) -> None:
        """Raises AgentError where the port is taken."""
        try:
            self._server.start()
        except AddressInUse as error:
            raise AgentError(str(error)) from error

    def stop(self) -> None:
        self._server.stop()

    def healthz(self) -> Page:
        return Page(200, _PLAIN, b"alive\n")

    def readyz(self) -> Page:
        last = self._last()
        if last is not None and last.is_ready and not self._is_late(last):
            return Page(200, _PLAIN, b"ready\n")
        reason = "it has made no turn yet" if last is None else last.reason or "its last turn is long ago"
        return Page(503, _PLAIN, f"{reason}\n".encode())

    def status(self) -> Page:
        last = self._last()
        return _NO_TURN if last is None else Page(200, "application/json", json.dumps(last.words()).encode())

    def metrics(self) -> Page:
        last = self._last()
        if last is None:
            return _NO_TURN
        own = metrics_of(last, is_ready=last.is_ready and not self._is_late(last))
        return Page(200, CONTENT_TYPE, text([*own, *process_metrics("agent")]).encode())

    def _is_late(self, last: Snapshot) -> bool:
        return self._now_ms() - last.at_ms > LATE_MS


_NO_TURN = Page(503, _PLAIN, b"it has made no turn yet\n")


def metrics_of(shown: Snapshot, *, is_ready: bool) -> list[Metric]:
    """Return the agent's own metrics. Their number is bounded: sources that are not far behind are left out."""
    behind = [source for source in shown.sources if source.lag_bytes]
    events = [({"group": g, "event": e}, float(count)) for g, found in sorted(shown.events.items()) for e, count in found.items()]
    return [
        Metric(PREFIX + name, kind, doc, samples)
        for name, kind, doc, samples in (
            ("ready", "gauge", "1 while /readyz answers 200.", one(is_ready)),
            ("sources", "gauge", "Sources that are open.", one(shown.source_count)),
            (
                "unopened_sources",
                "gauge",
                "Sources that cannot be opened: windows stay unsealed for them.",
                one(len(shown.unopened)),
            ),
            ("lag_bytes", "gauge", "Bytes that are not settled, all sources.", one(shown.lag_bytes)),
            ("lag_seconds", "gauge", "Age of the oldest record that is not settled.", one(shown.lag_ms / 1000)),
            (
                "source_lag_bytes",
                "gauge",
                "The same, of each source that is behind.",
                [(_named(source), float(source.lag_bytes)) for source in behind],
            ),
            (
                "source_lag_seconds",
                "gauge",
                "The same, of each source that is behind.",
                [(_named(source), source.lag_ms / 1000) for source in behind],
            ),
            (
                "acknowledged_records_total",
                "counter",
                "Records that the live cluster has acknowledged.",
                one(shown.acknowledged),
            ),
            (
                "ambiguous_records_total",
                "counter",
                "Records that may or may not be stored.",
                one(shown.ambiguous),
            ),
            (
                "lost_records_total",
                "counter",
                "Records that are not stored, by the name of the loss; quarantined ones, too.",
                each("name", shown.losses),
            ),
            (
                "source_events_total",
                "counter",
                "What happened to sources since the start: truncated, damaged, … files.",
                events,
            ),
            ("batches_under_way", "gauge", "Batches that are planned and not settled.", one(shown.batches)),
            ("held_bytes", "gauge", "Their size.", one(shown.held_bytes)),
            ("reports_under_way", "gauge", "Reports that the audit topic has not acknowledged.", one(shown.reports)),
        )
    ]


def _named(source: SourceState) -> dict[str, str]:
    return {"source": source.name, "topic": source.topic}
