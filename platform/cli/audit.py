"""`headrace audit run|report|drill|…`: the audit service, its report, its drills. Its producers are in `audit_producers.py`."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from ..errors import HeadraceError
from ..runtime.layout import LOOPBACK, Layout
from . import audit_producers
from .audited_topics import await_heard, why_nothing
from .topic_names import check_usable

HELP = """Count every tier's records per window, show whether the counts agree, and prove that the alarm works.

example: headrace audit report --topic access_log --wait COMPLETE 120"""

FINAL = ("COMPLETE", "ACCEPTED", "INCOMPLETE", "OVERCOUNTED", "UNKNOWN")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    layout = Layout.from_environment()
    actions = parser.add_subparsers(dest="action", required=True, metavar="run|report|producers|retire-producer|drill")

    run_ = actions.add_parser("run", help="run the audit service", description="Run the audit service until SIGTERM.")
    run_.add_argument("--host", default=LOOPBACK, help="address to listen on (default %(default)s)")
    run_.add_argument("--port", type=int, default=layout.port(8090), help="HTTP port (default %(default)s)")
    run_.add_argument("--live", default=layout.live_bootstrap, help="bootstrap of the live cluster (default %(default)s)")
    run_.add_argument(
        "--offline", default=layout.offline_bootstrap, help="bootstrap of the offline cluster, '' for none (default %(default)s)"
    )
    run_.add_argument("--settings", type=Path, help="TOML file like deploy/local/audit.toml (default: built-in settings)")
    run_.add_argument(
        "--store", type=Path, default=layout.home / "audit" / "books.sqlite", help="SQLite file (default %(default)s)"
    )
    run_.add_argument("--status-file", type=Path, help="where to write this process's status as JSON")

    report = actions.add_parser(
        "report",
        help="print every window's counts and verdict",
        description="Print every window's counts and verdict. Exit: 0 printed (and the awaited state was reached), 1 not, "
        "2 wrong usage (no such topic).",
        epilog="example: headrace audit report --topic access_log --json",
    )
    report.add_argument("--topic", help="only this topic")
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

    audit_producers.configure(actions)

    drill = actions.add_parser("drill", help="plant a fault in the running platform and check that the audit finds it")
    drills = drill.add_subparsers(dest="drill", required=True, metavar="loss|silence")
    loss = drills.add_parser("loss", help="make whole batches unreadable on the offline side")
    loss.add_argument("--topic", required=True, help="a topic with data on the offline side")
    loss.add_argument(
        "--batches", type=int, default=3, help="how many batches to damage, in different hours (default %(default)s)"
    )
    silence = drills.add_parser("silence", help="hold one reporter back before it seals its window")
    silence.add_argument("--topic", default="drill_silence", help="topic to log to (default %(default)s)")
    silence.add_argument("--events", type=int, default=50, help="events that the held-back process logs (default %(default)s)")
    for one in (loss, silence):
        one.add_argument("--json", action="store_true", help="print what was done and seen as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen subcommand and return its exit code."""
    match arguments.action:
        case "run":
            return _run(arguments)
        case "report":
            return _report(arguments)
        case "producers":
            return audit_producers.list_unsealed(arguments)
        case "retire-producer":
            return audit_producers.retire_producer(arguments)
        case _:
            return _drill(arguments)


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
        port=arguments.port,
        live=arguments.live,
        offline=arguments.offline or None,
        store=arguments.store,
        status_file=arguments.status_file,
        settings=load(arguments.settings),
    )
    run_service(process, stop)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from ..audit.client import completeness

    wanted, seconds = _waited_for(arguments.wait)
    deadline = time.monotonic() + seconds
    while True:
        windows = completeness(arguments.url, arguments.topic)
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
    from rich.table import Table

    from ..audit.service.web import report as report_words

    console = Console(width=None if sys.stdout.isatty() else 160)
    if not windows:
        console.print(nothing, highlight=False, soft_wrap=True)
        return
    for topic in dict.fromkeys(window["topic"] for window in windows):
        mine = [window for window in windows if window["topic"] == topic]
        tiers = report_words.tiers(mine)
        table = Table(title=topic, title_justify="left")
        table.add_column("window (UTC)", no_wrap=True)
        for name in (*tiers, "quarantined"):
            table.add_column(name, justify="right")
        table.add_column("verdict", no_wrap=True)
        table.add_column("why", overflow="fold")
        for window in mine:
            counts = [report_words.count_words(window["tiers"].get(tier)) for tier in tiers]
            table.add_row(
                report_words.time_words(window),
                *counts,
                f"{window['quarantined']:,}",
                report_words.verdict_words(window),
                report_words.why_words(window),
                style=report_words.STYLE.get(window["verdict"], ""),
            )
        console.print(table)


def _drill(arguments: argparse.Namespace) -> int:
    from ..local import control
    from ..local.drills import loss_drill, silence_drill

    layout = Layout.from_environment()
    control.running(layout)
    if arguments.drill == "loss":
        await_heard(arguments.topic, url=layout.audit_url, live=layout.live_bootstrap)
    else:
        check_usable(arguments.topic)

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if arguments.drill == "loss":
        result = loss_drill.run(layout, arguments.topic, batches=arguments.batches, progress=progress)
    else:
        result = silence_drill.run(layout, arguments.topic, events=arguments.events, progress=progress)
    if arguments.json:
        json.dump(result.as_json(), sys.stdout)
        print()
    else:
        print(result.in_words())
    return 0 if result.held else 1
