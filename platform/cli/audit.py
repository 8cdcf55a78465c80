"""`headrace audit run|report|drill|…`: the audit service, its report, and in files of their own its drills and its producers."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Literal

from ..errors import HeadraceError
from ..runtime.layout import LOOPBACK, Layout
from . import audit_drill, audit_producers, audit_records, audit_restate, audit_tiers, audit_warehouse, audit_words
from .audited_topics import why_nothing
from .foreground import access_of, add_access

HELP = """Count every tier's records per window, show whether the counts agree, and prove that the alarm works.

example: headrace audit report --topic access_log --wait COMPLETE 120"""

FINAL = ("COMPLETE", "ACCOUNTED", "ACCEPTED", "INCOMPLETE", "ALTERED", "DOUBLED", "UNKNOWN")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    layout = Layout.from_environment()
    names = (
        "run|report|which|watch|recount|restate|known-loss|erased|tier|producers|retire-producer|verify-table|recount-warehouse"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar=f"{names}|drill")

    run_ = actions.add_parser("run", help="run the audit service", description="Run the audit service until SIGTERM.")
    run_.add_argument("--host", default=LOOPBACK, help="address (default %(default)s; another one wants --token-file or mTLS)")
    add_access(run_)
    run_.add_argument("--port", type=int, default=layout.port(8090), help="HTTP port (default %(default)s)")
    run_.add_argument("--live", default=layout.live_bootstrap, help="bootstrap of the live cluster (default %(default)s)")
    run_.add_argument(
        "--offline", default=layout.offline_bootstrap, help="bootstrap of the offline cluster, '' for none (default %(default)s)"
    )
    run_.add_argument("--settings", type=Path, help="TOML file like deploy/local/audit.toml (default: built-in settings)")
    run_.add_argument(
        "--store",
        default=str(layout.home / "audit" / "books.sqlite"),
        help="SQLite file, or postgresql://user@host/database (default %(default)s)",
    )
    run_.add_argument("--console", metavar="URL", help="where the console is: the addresses of pages lead there (default: none)")
    run_.add_argument("--status-file", type=Path, help="where to write this process's status as JSON")

    report = actions.add_parser(
        "report",
        help="print every window's counts and verdict",
        description="Print every window's counts and verdict. Exit: 0 printed (and the awaited state was reached), 1 not, "
        "2 wrong usage (no such topic).",
        epilog="example: headrace audit report --topic access_log --json",
    )
    report.add_argument("--topic", help="only this topic")
    report.add_argument("--days", action="store_true", help="the days to which old windows were added, instead of windows")
    report.add_argument("--from", dest="from_", metavar="TIME", help="only windows that end after it ('2015-05-17 10:00', UTC)")
    report.add_argument("--to", metavar="TIME", help="only windows that begin before it")
    report.add_argument("--last", type=int, metavar="N", help="only the N latest windows of --topic")
    report.add_argument("--json", action="store_true", help="a JSON array, one object a window")
    report.add_argument("--url", default=layout.audit_url, help="the audit service (default %(default)s)")
    report.add_argument(
        "--live", default=layout.live_bootstrap, help="where to look for a topic without windows (default %(default)s)"
    )
    report.add_argument(
        "--wait",
        nargs=2,
        metavar=("WHAT", "SECONDS"),
        help="first wait until every window is COMPLETE, or decided (no longer OPEN), at most SECONDS",
    )

    audit_records.configure(actions)
    audit_restate.configure(actions)
    audit_words.configure(actions)
    audit_tiers.configure(actions)
    audit_producers.configure(actions)
    audit_warehouse.configure(actions)

    audit_drill.configure(actions)


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen subcommand and return its exit code."""
    match arguments.action:
        case "run":
            return _run(arguments)
        case "report":
            return _report(arguments)
        case "which":
            return audit_records.which(arguments)
        case "watch":
            return audit_records.watch(arguments)
        case "recount":
            return audit_records.recount(arguments)
        case "restate":
            return audit_restate.run(arguments)
        case "known-loss":
            return audit_words.tell(arguments, "lost")
        case "erased":
            return audit_words.tell(arguments, "erased")
        case "tier":
            return audit_tiers.run(arguments)
        case "producers":
            return audit_producers.list_unsealed(arguments)
        case "retire-producer":
            return audit_producers.retire_producer(arguments)
        case "verify-table":
            return audit_warehouse.verify_table(arguments)
        case "recount-warehouse":
            return audit_warehouse.recount_warehouse(arguments)
        case _:
            return audit_drill.run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    from ..audit.service.app import AuditProcess
    from ..audit.service.app import run as run_service
    from ..audit.service.settings import load
    from ..runtime import logs
    from ..runtime.lifecycle import StopSignal

    logs.configure("audit")
    stop = StopSignal().install()
    process = AuditProcess(
        host=arguments.host,
        access=access_of(arguments),
        port=arguments.port,
        live=arguments.live,
        offline=arguments.offline or None,
        store=arguments.store,
        console=arguments.console,
        status_file=arguments.status_file,
        settings=load(arguments.settings),
    )
    run_service(process, stop)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    wanted, seconds = _waited_for(arguments.wait)
    deadline = time.monotonic() + seconds
    while True:
        windows = _asked(arguments)
        left = [window for window in windows if not _holds(wanted, window)]
        if wanted is None or (windows and not left) or time.monotonic() >= deadline:
            break
        time.sleep(min(0.5, max(0.05, deadline - time.monotonic())))
    nothing = "No window has been mentioned by any tier."
    if arguments.topic is not None and not windows:
        nothing = why_nothing(arguments.topic, url=arguments.url, live=arguments.live)
        if arguments.json:
            print(f"headrace audit: {nothing}", file=sys.stderr)
    if arguments.json:
        json.dump(windows, sys.stdout)
        print()
    else:
        _table(windows, nothing)
    if wanted is not None and (left or not windows):
        what = f"{len(left)} of {len(windows)} windows are not {wanted}" if windows else "no window has been mentioned"
        print(f"headrace audit: after {seconds:g} s {what}", file=sys.stderr)
        return 1
    return 0


def _asked(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from ..audit.client import completeness, newest

    if arguments.last is not None:
        if arguments.topic is None or arguments.last < 1:
            raise HeadraceError("--last N: give --topic, too, and a number above 0")
        return newest(arguments.url, arguments.topic, arguments.last)
    from_ms, to_ms = (None if text is None else audit_records.instant(text) for text in (arguments.from_, arguments.to))
    by: Literal["day", "window"] = "day" if arguments.days else "window"
    return completeness(arguments.url, arguments.topic, from_ms=from_ms, to_ms=to_ms, by=by)


def _waited_for(words: list[str] | None) -> tuple[str | None, float]:
    if words is None:
        return None, 0.0
    what, text = words
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if what not in ("COMPLETE", "decided") or not 0 <= seconds <= 86_400:
        raise HeadraceError(f"--wait {what} {text}: WHAT is COMPLETE or decided, SECONDS a number from 0 to 86400")
    return what, seconds


def _holds(wanted: str | None, window: dict[str, Any]) -> bool:
    if wanted == "COMPLETE":
        return bool(window["verdict"] == "COMPLETE")
    return wanted is None or window["verdict"] in FINAL


def _table(windows: list[dict[str, Any]], nothing: str) -> None:
    from rich.console import Console

    from .audit_table import print_windows

    console = Console()
    if not windows:
        console.print(nothing, highlight=False, soft_wrap=True)
        return
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for window in windows:
        by_topic.setdefault(window["topic"], []).append(window)
    for topic, found in by_topic.items():
        print_windows(console, topic, found)
