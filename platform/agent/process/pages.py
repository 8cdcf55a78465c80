"""/metrics, /healthz, /readyz and /status on the loopback. Shows the last snapshot; asks the agent's thread nothing."""

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ...runtime.layout import LOOPBACK
from ..errors import AgentError
from .snapshot import Snapshot

PREFIX = "headrace_agent_"
LATE_MS = 30_000
"""An agent whose snapshot is older than this is not ready: a turn takes too long, or its disk does not answer."""


class Pages:
    """The HTTP server, on a thread of its own."""

    def __init__(self, port: int, last: Callable[[], Snapshot | None], now_ms: Callable[[], int]) -> None:
        """Raises AgentError where the port is taken."""
        pages = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                code, kind, body = pages.answer(self.path)
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._last = last
        self._now_ms = now_ms
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        except OSError as error:
            raise AgentError(f"metrics_port = {port}: cannot listen on {LOOPBACK}:{port}: {error.strerror}") from error
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="headrace-agent-pages", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of a page."""
        last = self._last()
        is_late = last is None or self._now_ms() - last.at_ms > LATE_MS
        match path.partition("?")[0]:
            case "/healthz":
                return 200, "text/plain", b"alive\n"
            case "/readyz":
                if last is not None and last.is_ready and not is_late:
                    return 200, "text/plain", b"ready\n"
                reason = "it has made no turn yet" if last is None else last.reason or "its last turn is long ago"
                return 503, "text/plain", f"{reason}\n".encode()
            case "/status" if last is not None:
                return 200, "application/json", json.dumps(last.words()).encode()
            case "/metrics" if last is not None:
                return 200, "text/plain; version=0.0.4", metrics_page(last, is_ready=last.is_ready and not is_late).encode()
            case "/status" | "/metrics":
                return 503, "text/plain", b"it has made no turn yet\n"
        return 404, "text/plain", b"there are /metrics, /healthz, /readyz and /status\n"


def metrics_page(one: Snapshot, *, is_ready: bool) -> str:
    """Return the page in Prometheus' text format. Its size is bounded: sources that are not far behind are left out."""
    lines: list[str] = []

    def put(name: str, kind: str, doc: str, values: Iterable[tuple[dict[str, str], float]]) -> None:
        lines.extend((f"# HELP {PREFIX}{name} {doc}", f"# TYPE {PREFIX}{name} {kind}"))
        for labels, value in values:
            words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"{PREFIX}{name}{'{' + words + '}' if words else ''} {value:g}")

    put("ready", "gauge", "1 while /readyz answers 200.", [({}, is_ready)])
    put("sources", "gauge", "Sources that are open.", [({}, one.source_count)])
    put("unopened_sources", "gauge", "Sources that cannot be opened: windows stay unsealed for them.", [({}, len(one.unopened))])
    put("lag_bytes", "gauge", "Bytes that are not settled, all sources.", [({}, one.lag_bytes)])
    put("lag_seconds", "gauge", "Age of the oldest record that is not settled.", [({}, one.lag_ms / 1000)])
    behind = [source for source in one.sources if source.lag_bytes]
    names = [{"source": source.name, "topic": source.topic} for source in behind]
    put(
        "source_lag_bytes",
        "gauge",
        "The same, of each source that is behind.",
        zip(names, (s.lag_bytes for s in behind), strict=True),
    )
    seconds = (source.lag_ms / 1000 for source in behind)
    put("source_lag_seconds", "gauge", "The same, of each source that is behind.", zip(names, seconds, strict=True))
    put("acknowledged_records_total", "counter", "Records that the live cluster has acknowledged.", [({}, one.acknowledged)])
    put("ambiguous_records_total", "counter", "Records of which nobody can tell whether they are stored.", [({}, one.ambiguous)])
    losses = [({"name": name}, count) for name, count in sorted(one.losses.items())]
    put("lost_records_total", "counter", "Records that are not stored, by the name of the loss; quarantined ones, too.", losses)
    events = [({"group": g, "event": e}, count) for g, found in sorted(one.events.items()) for e, count in sorted(found.items())]
    put("source_events_total", "counter", "What happened to sources since the start: truncated, damaged, … files.", events)
    put("batches_under_way", "gauge", "Batches that are planned and not settled.", [({}, one.batches)])
    put("held_bytes", "gauge", "Their size.", [({}, one.held_bytes)])
    put("reports_under_way", "gauge", "Reports that the audit topic has not acknowledged.", [({}, one.reports)])
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
