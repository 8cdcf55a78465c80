"""`headrace sink files|http|postgresql`: one process that writes topics out, in the foreground, until SIGTERM."""

import argparse
import os
import re
import socket
from pathlib import Path

from ..audit.model.tiers import AT_OFFLINE, GROUP_NAME, SINK
from ..errors import HeadraceError
from ..reader.processor import Processor
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from ..schema_registry.client import RegistryClient
from .errors import UsageError
from .foreground import add_schema_cache, schema_cache_of

HELP = """Write the events of topics to files, to an HTTP server, or into a PostgreSQL table. docs/SINKS.md is the manual.

Processes of one group share the partitions. At least once: every record has an id (topic-partition-offset) by which duplicates
are recognized; in files and in PostgreSQL each record is there once. What cannot be decoded, or is refused, goes to quarantine.

exit codes: 0 stopped as asked, 1 it could not continue, 2 wrong usage

example: headrace sink files --topic clicks --folder /data/clicks
example: headrace sink http --topic clicks --url http://127.0.0.1:8000/events
example: headrace sink postgresql --topic clicks --table clicks --dsn-file /etc/headrace/clicks.dsn"""


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--topic", dest="topics", action="append", required=True, metavar="TOPIC", help="repeatable; it need not exist yet"
    )
    common.add_argument("--group", help="processes of a group share the partitions (default: sink-KIND-TOPIC)")
    common.add_argument("--consumer-id", help="this member's name (default: made from host and process id)")
    common.add_argument(
        "--cluster", default="live", help="live, offline, or another name: that of quarantine records (default: %(default)s)"
    )
    common.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"(default: by --cluster: live {layout.live_bootstrap}, offline {layout.offline_bootstrap})",
    )
    common.add_argument("--registry", default=layout.registry_url, metavar="URL", help="(default: %(default)s)")
    add_schema_cache(common)
    common.add_argument(
        "--audit-bootstrap",
        metavar="HOST:PORT",
        help="cluster of the audit's topic (default: --bootstrap; of a sink on the offline cluster the live one)",
    )
    common.add_argument(
        "--no-audit", action="store_true", help="report nothing to the audit (needed for another cluster than live and offline)"
    )
    common.add_argument("--status-file", type=Path, help="file in which the process writes its state as JSON")
    common.add_argument("--most-bytes", type=_count, metavar="N", help="held at most (default: 8 MiB; files: 64 MiB)")
    common.add_argument("--session-timeout-ms", type=_count, default=10_000, metavar="MS", help="(default: %(default)s)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="files|http|postgresql")

    files = actions.add_parser("files", parents=[common], help="minute files, finished by a rename")
    files.add_argument("--folder", type=Path, required=True)
    files.add_argument("--format", choices=("ndjson", "avro"), default="ndjson", help="(default: %(default)s)")
    files.add_argument("--roll-ms", type=_count, default=60_000, metavar="MS", help="finished so often (default: %(default)s)")

    http = actions.add_parser("http", parents=[common], help="POST batches of JSON")
    http.add_argument("--url", required=True)
    http.add_argument("--lines", action="store_true", help="lines of JSON instead of an array")
    http.add_argument("--batch", type=_count, default=500, metavar="N", help="records of a request (default: %(default)s)")
    http.add_argument("--batch-bytes", type=_count, default=1 << 20, metavar="N", help="their bytes (default: %(default)s)")
    http.add_argument("--timeout-ms", type=_count, default=10_000, metavar="MS", help="(default: %(default)s)")
    http.add_argument("--token-file", type=Path, metavar="FILE", help="its first line is sent as bearer token")
    http.add_argument("--ca-file", type=Path, metavar="FILE", help="who signed the server's certificate (PEM)")

    table = actions.add_parser("postgresql", parents=[common], help="rows of a table (needs headrace's extra `postgresql`)")
    table.add_argument("--table", required=True, metavar="[SCHEMA.]TABLE", help="made from the events' schema if it is not there")
    table.add_argument("--dsn", help="postgresql://… without a password; see --dsn-file")
    table.add_argument("--dsn-file", type=Path, metavar="FILE", help="its first line is the DSN, with a password")
    for one in (http, table):
        one.add_argument("--flush-ms", type=_count, default=1_000, metavar="MS", help="written so often (default: %(default)s)")
        one.add_argument("--most-records", type=_count, default=1_000, metavar="N", help="held at most (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    from ..reader.loop_settings import LoopSettings
    from ..reader.reading_loop import ReadingLoop
    from ..reader.statistics import log_end

    is_files = arguments.action == "files"
    group = arguments.group or f"sink-{arguments.action}-{'-'.join(arguments.topics)}"
    bootstrap, audit_bootstrap = _clusters(arguments)
    if audit_bootstrap is not None and not re.fullmatch(GROUP_NAME, group):
        raise UsageError(
            f"the group {group[:60]!r}: the audit knows sinks by groups of at most 200 letters (a to z), digits, dots, _ and -: "
            "give another --group, or --no-audit"
        )
    settings = LoopSettings(
        topics=tuple(arguments.topics),
        group=group,
        tier=_tier(group, arguments.cluster),
        consumer_id=arguments.consumer_id or f"{socket.gethostname()}-{os.getpid()}",
        bootstrap=bootstrap,
        registry=arguments.registry,
        cluster=arguments.cluster,
        audit_bootstrap=audit_bootstrap,
        cache_folder=schema_cache_of(arguments),
        status_file=arguments.status_file,
        flush_every_ms=arguments.roll_ms if is_files else arguments.flush_ms,
        most_records=1 << 62 if is_files else arguments.most_records,
        most_bytes=arguments.most_bytes or ((64 if is_files else 8) << 20),
        session_timeout_ms=arguments.session_timeout_ms,
    )
    configure_logs(f"sink-{arguments.action}")
    registry = RegistryClient(arguments.registry, cache_folder=schema_cache_of(arguments))
    loop = ReadingLoop(settings, _sink(arguments, group, registry))
    try:
        loop.run(StopSignal().install())
    finally:
        log_end([loop], group)
    return 0


def _sink(arguments: argparse.Namespace, group: str, registry: RegistryClient) -> Processor:
    match arguments.action:
        case "files":
            from ..apps.sinks.minute_files import MinuteFiles

            return MinuteFiles(arguments.folder.absolute(), group, arguments.format, registry.schema)
        case "http":
            from ..apps.sinks.http_posts import HttpPosts

            return HttpPosts(
                arguments.url,
                lines=arguments.lines,
                most_records=arguments.batch,
                most_bytes=arguments.batch_bytes,
                timeout_ms=arguments.timeout_ms,
                token_file=arguments.token_file,
                ca_file=arguments.ca_file,
            )
    try:
        from ..apps.sinks.postgresql import PostgresqlTable
    except ImportError as error:
        raise HeadraceError("there is no driver for PostgreSQL: pip install 'psycopg[binary]'") from error
    return PostgresqlTable(_dsn(arguments), arguments.table, registry.schema)


def _tier(group: str, cluster: str) -> str:
    """Return the sink's name in the audit. Sinks of one group on both clusters are two tiers."""
    return f"{SINK}{group}{AT_OFFLINE if cluster == 'offline' else ''}"


def _clusters(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Return the addresses of the cluster that is read and of the one with the audit's topic; None: nothing is told."""
    layout, name = Layout.from_environment(), arguments.cluster
    bootstrap = arguments.bootstrap or {"live": layout.live_bootstrap, "offline": layout.offline_bootstrap}.get(name)
    if bootstrap is None:
        raise UsageError(f"--cluster {name}: say where it is: --bootstrap HOST:PORT")
    if arguments.no_audit:
        if arguments.audit_bootstrap is not None:
            raise UsageError("--no-audit and --audit-bootstrap: give one of them")
        return bootstrap, None
    if name not in ("live", "offline"):
        raise UsageError(
            f"--cluster {name}: the audit reads the logs of live and offline alone, and has nothing to compare this sink with: "
            "give --no-audit"
        )
    if name == "live":
        return bootstrap, arguments.audit_bootstrap or bootstrap
    if arguments.audit_bootstrap is None and arguments.bootstrap is not None:
        raise UsageError(
            f"--cluster offline --bootstrap {bootstrap}: say where the audit's topic is, on the live cluster: "
            "--audit-bootstrap HOST:PORT, or --no-audit"
        )
    return bootstrap, arguments.audit_bootstrap or layout.live_bootstrap


def _dsn(arguments: argparse.Namespace) -> str:
    if (arguments.dsn is None) == (arguments.dsn_file is None):
        raise UsageError("give one of --dsn and --dsn-file")
    if arguments.dsn is not None:
        return str(arguments.dsn)
    try:
        return str(arguments.dsn_file.read_text().split("\n", 1)[0].strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--dsn-file {arguments.dsn_file} cannot be read: {error}") from error


def _count(word: str) -> int:
    if not word.isascii() or not word.isdigit() or not int(word):
        raise argparse.ArgumentTypeError(f"{word!r}: give a whole number from 1 on")
    return int(word)
