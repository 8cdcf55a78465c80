"""`headrace replay LOG`: sends a web server's access log as events, each line with its own time."""

import argparse
import json
import sys
import time
from pathlib import Path

from ..apps.replay.earlier_replays import EarlierReplay, latest_of, read, remember
from ..apps.replay.log_format import OtherFormat, check_format
from ..apps.replay.replay import Replay, ReplayResult
from ..apps.replay.time_range import time_range
from ..audit.model.windows import utc
from ..client.connection.cluster import Cluster
from ..client.errors import BrokerUnreachable, ClientError
from ..client.producer.topic_creation import partitions_of
from ..runtime.backoff import Backoff
from ..runtime.clock import SystemClock
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from ..sdk.access_log_schema import ACCESS_LOG_SCHEMA, ACCESS_LOG_TOPIC
from ..sdk.event_logger import EventLogger
from .errors import UsageError
from .topic_names import check_usable

HELP = """Replay an access log (combined format, plain or .gz) as events with their own times.

The file is read twice: first for the times of its lines, so that the audit knows which windows wait for this replay.
A line that is not a request goes to quarantine with its file and line number and does not fail the replay; a file whose
first lines are mostly of another format is refused before anything is sent. Lines added meanwhile are not sent.
If the same file was replayed into the topic before, a warning says when; it is sent again anyway.
Exit code 0: every other line is delivered and its windows are sealed; 1: not, or it was stopped; 2: wrong usage.

example: headrace replay /var/log/apache2/access.log --topic access_log"""

MAX_BLOCK_MS = 120_000
"""How long a full buffer is waited for before a line counts as dropped: longer than a broker's restart."""
CLOSE_TIMEOUT_MS = 130_000
TOPIC_TIMEOUT_MS = 10_000
"""How long to wait for a new topic."""


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    parser.add_argument("log", metavar="LOG", type=Path, help="the log file; .gz is read directly")
    parser.add_argument("--topic", default=ACCESS_LOG_TOPIC, help="where the events go (default %(default)s)")
    parser.add_argument("--any-format", action="store_true", help="replay a file even if its first lines are of another format")
    parser.add_argument("--rate", type=_rate, metavar="N", help="at most N events a second (default: as fast as possible)")
    parser.add_argument("--server-name", help="the server that wrote the log (default: this host's name)")
    parser.add_argument("--bootstrap", default=layout.live_bootstrap, help="the live cluster (default %(default)s)")
    parser.add_argument("--registry", default=layout.registry_url, help="the schema registry (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.log.is_file():
        print(f"headrace replay: {arguments.log} is not a file: give an access log", file=sys.stderr)
        return 2
    # Check the arguments first: once the logger has started, the audit waits for the events of this run.
    check_usable(arguments.topic)
    if not arguments.any_format:
        try:
            check_format(arguments.log)
        except OtherFormat as error:
            raise UsageError(f"{error}\n--any-format replays it anyway, and puts every other line into quarantine") from error
    configure_logs("replay", "WARNING", "text")
    stop = StopSignal().install()
    _see_topic(arguments.bootstrap, arguments.topic)
    began = time.monotonic()
    progress = _Progress(arguments.log.name)
    found = time_range(arguments.log, is_stopped=stop.is_set, on_progress=progress)
    now_ms = SystemClock().now_ms()
    earlier = latest_of(found.head, arguments.topic, arguments.bootstrap, read(_replays()))
    if earlier is not None:
        print(
            f"headrace replay: {arguments.log} was replayed into {earlier.topic} before, at {utc(earlier.at_ms)} UTC "
            f"({earlier.file}, {earlier.sent} sent): what it holds will be there twice",
            file=sys.stderr,
        )
    logger = _PatientLogger(
        EventLogger(
            arguments.topic,
            ACCESS_LOG_SCHEMA,
            bootstrap=arguments.bootstrap,
            registry_url=arguments.registry,
            application="replay",
            server_name=arguments.server_name,
            lateness_ms=None,
            only_between_ms=found.between_ms or (now_ms, now_ms + 1),
            max_block_ms=MAX_BLOCK_MS,
        )
    )
    replay = Replay(
        logger,
        arguments.log,
        stop=stop,
        clock=SystemClock(),
        rate=arguments.rate,
        most_lines=found.lines,
        on_progress=progress,
    )
    result = replay.run()
    progress.end()
    if result.sent:
        _remember(found.head, arguments, result.sent, now_ms)
    seconds = time.monotonic() - began
    print(json.dumps(_words(result, arguments, seconds)) if arguments.json else _sentence(result, arguments, seconds))
    for failure in result.failures:
        print(f"headrace replay: {failure}", file=sys.stderr)
    if result.dropped:
        print(
            f"headrace replay: {result.dropped} lines were dropped: the buffer stayed full; the audit counts them",
            file=sys.stderr,
        )
    if result.stopped_at_line is not None:
        print(f"headrace replay: stopped at line {result.stopped_at_line}; what was sent until there is sealed", file=sys.stderr)
    return 0 if result.is_whole else 1


def _replays() -> Path:
    return Layout.from_environment().home / "replays.json"


def _remember(head: str, arguments: argparse.Namespace, sent: int, at_ms: int) -> None:
    """Note the replay, if there is a home to note it in: one into a cluster of elsewhere makes none."""
    file = str(arguments.log.absolute())
    replay = EarlierReplay(head=head, topic=arguments.topic, bootstrap=arguments.bootstrap, file=file, sent=sent, at_ms=at_ms)
    if not _replays().parent.is_dir():
        return
    try:
        remember(_replays(), replay)
    except OSError as error:
        print(f"headrace replay: {_replays()} cannot be written, a second replay will not be noticed: {error}", file=sys.stderr)


class _PatientLogger:
    """The logger; its `close` allows time to deliver what is in flight."""

    def __init__(self, logger: EventLogger) -> None:
        self.log = logger.log
        self.quarantine = logger.quarantine
        self._logger = logger

    @property
    def acknowledged_count(self) -> int:
        return self._logger.acknowledged_count

    def close(self) -> None:
        self._logger.close(CLOSE_TIMEOUT_MS)
        if self._logger.close_error is not None:
            raise self._logger.close_error


class _Progress:
    """A bar on a terminal, a line every few seconds elsewhere, nothing if it ends within two seconds."""

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


def _see_topic(bootstrap: str, topic: str) -> None:
    """Return once the topic exists; create it if needed. Raises the reason if no broker answers, or if one refuses the topic."""
    cluster = Cluster(bootstrap, client_id="replay", request_timeout_ms=5_000)
    backoff = Backoff()
    deadline = time.monotonic() + TOPIC_TIMEOUT_MS / 1000
    attempt = 0
    try:
        while True:
            try:
                partitions_of(cluster, topic)
                return
            except BrokerUnreachable:
                raise  # at once, instead of waiting for the buffer to fill
            except ClientError as error:
                if not error.retriable or time.monotonic() >= deadline:
                    raise
            time.sleep(backoff.wait_ms(attempt) / 1000)
            attempt += 1
    finally:
        cluster.close()


def _words(result: ReplayResult, arguments: argparse.Namespace, seconds: float) -> dict[str, object]:
    return {
        "topic": arguments.topic,
        "file": str(arguments.log.absolute()),
        "lines": result.lines,
        "sent": result.sent,
        "not_acknowledged": result.taken - result.sent,
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
    sent = f"{result.sent} sent" if result.sent == result.taken else f"only {result.sent} of {result.taken} sent"
    return f"{arguments.topic}: {sent}, {quarantined}, {len(result.windows)} windows, {seconds:.1f} s"


def _rate(word: str) -> float:
    try:
        rate = float(word)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{word!r} is not a rate: give events a second, above 0")
    return rate
