"""`headrace replay LOG`: a web server's access log as events, each line at its own time."""

import argparse
import json
import sys
import time
from pathlib import Path

from ..apps.replay import Replay, ReplayResult
from ..client.cluster import Cluster
from ..runtime.clock import SystemClock
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from ..sdk.access_log_schema import ACCESS_LOG_SCHEMA, ACCESS_LOG_TOPIC
from ..sdk.event_logger import EventLogger

HELP = """Replay an access log (combined format, plain or .gz) as events with their own times.

A line that is no request goes to quarantine with its file and line number and does not fail the replay.
Exit code 0: every other line is delivered and the books are sealed; 1: not, or it was stopped.

example: headrace replay /var/log/apache2/access.log --topic access_log"""

MAX_BLOCK_MS = 120_000
"""How long a full buffer is waited for before a line counts as dropped: longer than a broker takes to come back."""
CLOSE_TIMEOUT_MS = 130_000


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    parser.add_argument("log", metavar="LOG", type=Path, help="the log file; .gz is unpacked on the way")
    parser.add_argument("--topic", default=ACCESS_LOG_TOPIC, help="where the events go (default %(default)s)")
    parser.add_argument("--rate", type=_rate, metavar="N", help="at most N events a second (default: as fast as they are taken)")
    parser.add_argument("--server-name", help="the server that wrote the log (default: this host's name)")
    parser.add_argument("--bootstrap", default=layout.live_bootstrap, help="the live cluster (default %(default)s)")
    parser.add_argument("--registry", default=layout.registry_url, help="the schema registry (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.log.is_file():
        print(f"headrace replay: {arguments.log} is no file: give an access log", file=sys.stderr)
        return 2
    configure_logs("replay", "WARNING")
    stop = StopSignal().install()
    _see_cluster(arguments.bootstrap)
    began = time.monotonic()
    progress = _Progress(arguments.log.name)
    logger = _PatientLogger(
        EventLogger(
            arguments.topic,
            ACCESS_LOG_SCHEMA,
            bootstrap=arguments.bootstrap,
            registry_url=arguments.registry,
            application="replay",
            server_name=arguments.server_name,
            lateness_ms=None,
            max_block_ms=MAX_BLOCK_MS,
        )
    )
    replay = Replay(logger, arguments.log, stop=stop, clock=SystemClock(), rate=arguments.rate, on_progress=progress)
    result = replay.run()
    progress.end()
    seconds = time.monotonic() - began
    print(json.dumps(_words(result, arguments, seconds)) if arguments.json else _sentence(result, arguments, seconds))
    for failure in result.failures:
        print(f"headrace replay: {failure}", file=sys.stderr)
    if result.dropped:
        print(f"headrace replay: {result.dropped} lines were dropped: the buffer stayed full; the books say so", file=sys.stderr)
    if result.stopped_at_line is not None:
        print(f"headrace replay: stopped at line {result.stopped_at_line}; what was sent until there is sealed", file=sys.stderr)
    return 0 if result.is_whole else 1


class _PatientLogger:
    """The logger, closed with time for everything that is under way."""

    def __init__(self, logger: EventLogger) -> None:
        self.log = logger.log
        self.quarantine = logger.quarantine
        self._logger = logger

    def close(self) -> None:
        self._logger.close(CLOSE_TIMEOUT_MS)


class _Progress:
    """A bar on a terminal, a line every few seconds elsewhere; nothing for what ends within two seconds."""

    FIRST_AFTER_S = 2.0

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_terminal = sys.stderr.isatty()
        self._every_s = 0.2 if self._is_terminal else 5.0
        self._next = time.monotonic() + self.FIRST_AFTER_S
        self._is_shown = False

    def __call__(self, lines: int, share: float) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        self._is_shown = True
        if self._is_terminal:
            done = int(30 * share)
            bar = "#" * done + "-" * (30 - done)
            print(f"\r{self._name} [{bar}] {share:4.0%}  {lines} lines", end="", file=sys.stderr, flush=True)
        else:
            print(f"{self._name}: {share:.0%} read, {lines} lines", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown and self._is_terminal:
            print(file=sys.stderr)


def _see_cluster(bootstrap: str) -> None:
    """Raise at once, with the reason, when no broker answers: better than to wait for a buffer to fill."""
    cluster = Cluster(bootstrap, client_id="replay", request_timeout_ms=5_000)
    try:
        cluster.refresh()
    finally:
        cluster.close()


def _words(result: ReplayResult, arguments: argparse.Namespace, seconds: float) -> dict[str, object]:
    return {
        "topic": arguments.topic,
        "file": str(arguments.log.absolute()),
        "lines": result.lines,
        "sent": result.sent,
        "quarantined": result.quarantined,
        "dropped": result.dropped,
        "windows": len(result.windows),
        "window_starts_ms": sorted(result.windows),
        "stopped_at_line": result.stopped_at_line,
        "sealed": result.is_sealed,
        "failures": result.failures,
        "duration_ms": int(seconds * 1000),
    }


def _sentence(result: ReplayResult, arguments: argparse.Namespace, seconds: float) -> str:
    quarantined = f"{result.quarantined} quarantined (`headrace quarantine list`)" if result.quarantined else "none quarantined"
    return f"{arguments.topic}: {result.sent} sent, {quarantined}, {len(result.windows)} windows, {seconds:.1f} s"


def _rate(word: str) -> float:
    try:
        rate = float(word)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{word!r} is no rate: give events a second, above 0")
    return rate
