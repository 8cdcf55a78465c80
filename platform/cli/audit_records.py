"""`headrace audit which|watch|recount`: which records differ, the verdicts as they change, a tier counted again."""

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import HeadraceError
from ..runtime.layout import Layout
from .audited_topics import why_nothing
from .errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

SHOWN_WINDOWS = 20
SHOWN_TOPICS = 30


def configure(actions: "Actions") -> None:
    """Add the subcommands."""
    layout = Layout.from_environment()
    which = actions.add_parser(
        "which",
        help="list which records of a window are missing, doubled or altered",
        description="List the ranges of records of one window that are missing, doubled or altered: tier, partition, offsets, "
        "producer, sequence numbers, instance, and the command that reads them where they still are.",
        epilog="example: headrace audit which access_log --window '2015-05-17 10:00'",
    )
    which.add_argument("topic", metavar="TOPIC")
    which.add_argument(
        "--window", required=True, metavar="TIME", help="a moment in it: '2015-05-17 10:05' (UTC) or milliseconds since the epoch"
    )
    which.add_argument("--json", action="store_true", help="a JSON array, one object a range")
    which.add_argument("--live", default=layout.live_bootstrap, help="bootstrap of the live cluster (default %(default)s)")
    which.add_argument("--offline", default=layout.offline_bootstrap, help="bootstrap of the offline one (default %(default)s)")

    watch = actions.add_parser(
        "watch",
        help="show the verdicts as they change, until Ctrl-C",
        description="Show all topics' windows by verdict, or the latest windows of one topic, again and again until Ctrl-C.",
        epilog="example: headrace audit watch access_log",
    )
    watch.add_argument("topic", metavar="TOPIC", nargs="?")
    watch.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="(default %(default)s)")
    watch.add_argument("--once", action="store_true", help="show it once and end")

    recount = actions.add_parser(
        "recount",
        help="count a tier that the audit reads back again",
        description="Have the live or the offline log of a topic read again from its start. What expired there stays known.",
        epilog="example: headrace audit recount --tier offline --topic access_log",
    )
    recount.add_argument("--tier", required=True, choices=("live", "offline"))
    recount.add_argument("--topic", required=True)
    for one in (which, watch, recount):
        one.add_argument("--url", default=layout.audit_url, help="the audit service (default %(default)s)")


def window_at(url: str, topic: str, text: str) -> dict[str, Any]:
    """Return the window of the topic that holds the moment. Raises UsageError where there is none."""
    from ..audit.client import completeness

    at_ms = instant(text)
    found = completeness(url, topic, from_ms=at_ms, to_ms=at_ms + 1)
    if not found:
        raise UsageError(
            f"no tier has mentioned a window of {topic!r} at {text}: `headrace audit report --topic {topic}` lists them"
        )
    return found[0]


def instant(text: str) -> int:
    """Return the moment in milliseconds since the epoch. Raises UsageError."""
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is neither a time like '2015-05-17 10:05' nor milliseconds since the epoch") from None
    return int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)


def which(arguments: argparse.Namespace) -> int:
    """Print the ranges of records; exit code 0 whether there are some or not."""
    from ..audit.service.web import report

    window = window_at(arguments.url, arguments.topic, arguments.window)
    records = [
        one | {"command": report.read_command(arguments.topic, one, live=arguments.live, offline=arguments.offline or None)}
        for one in report.records(window)
    ]
    if arguments.json:
        print(json.dumps(records))
        return 0
    print(f"{arguments.topic}, window of {report.time_words(window)} UTC: {report.verdict_words(window)}. {window['reason']}")
    if compared := report.compared_words(window):
        print(compared)
    if repaired := report.repaired_words(window):
        print(repaired)
    for one in records:
        print(f"{one['tier']} partition {one['partition']}: {one['count']:,} {one['kind']}{_where(one)}")
        print(f"  {one['command'] or 'nowhere to be read any more'}")
    for line in report.unnamed(window):
        print(line)
    return 0


def _where(one: dict[str, Any]) -> str:
    from ..audit.service.web import report

    words = ""
    if one.get("first_offset") is not None:
        words += f", offsets {report.span_words(one['first_offset'], one['count'])}"
    if one.get("producer_id") is not None:
        words += f", producer {one['producer_id']} epoch {one['producer_epoch']}"
        words += f" sequences {report.span_words(one['first_sequence'], one['count'])}"
    return words + (f", logged by {one['instance']}" if one.get("instance") else "")


def recount(arguments: argparse.Namespace) -> int:
    """Have a tier counted again."""
    from ..audit.client import recount as ask

    ask(arguments.url, tier=arguments.tier, topic=arguments.topic)
    print(f"{arguments.tier} of {arguments.topic} is counted again; see `headrace audit report --topic {arguments.topic}`")
    return 0


def watch(arguments: argparse.Namespace) -> int:
    """Show the verdicts until Ctrl-C: on a terminal in place, elsewhere whenever they have changed."""
    from rich.console import Console
    from rich.live import Live

    console = Console(width=None if sys.stdout.isatty() else 160)
    if arguments.once:
        console.print(_seen(arguments.url, arguments.topic))
        return 0
    if not arguments.every > 0:
        raise HeadraceError(f"--every {arguments.every}: give a number of seconds above 0")
    # At once: the first answer of a busy service may take seconds.
    header = f"{arguments.topic or 'all topics'}, from {arguments.url} every {arguments.every:g} s; Ctrl-C ends it"
    try:
        if not sys.stdout.isatty():
            print(header, flush=True)
            _print_changes(console, arguments)
        with Live(header, console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_seen(arguments.url, arguments.topic), refresh=True)
                time.sleep(arguments.every)
    except KeyboardInterrupt:
        return 0


def _print_changes(console: "Console", arguments: argparse.Namespace) -> NoReturn:
    last = ""
    while True:
        with console.capture() as now:
            console.print(_seen(arguments.url, arguments.topic))
        if now.get() != last:
            last = now.get()
            print(last, end="", flush=True)
        time.sleep(arguments.every)


def _seen(url: str, topic: str | None) -> "RenderableType":
    from ..audit.client import ServiceUnreachable, newest, summary
    from .audit_table import windows_table

    try:
        if topic is None:
            return _summary_table(summary(url))
        windows = newest(url, topic, SHOWN_WINDOWS)
    except ServiceUnreachable as error:
        return str(error)
    if not windows:
        return why_nothing(topic, url=url, live=Layout.from_environment().live_bootstrap)
    return windows_table(topic, windows)


def _summary_table(topics: dict[str, dict[str, Any]]) -> "RenderableType":
    from rich.table import Table

    verdicts = sorted({verdict for one in topics.values() for verdict in one["windows"]})
    table = Table(title=f"{len(topics)} topics", title_justify="left")
    table.add_column("topic", no_wrap=True)
    for name in (*verdicts, "missing", "doubled", "altered"):
        table.add_column(name, justify="right")
    # Those that are not as they should be come first.
    order = sorted(topics, key=lambda name: (-sum(topics[name][kind] for kind in ("missing", "doubled", "altered")), name))
    for name in order[:SHOWN_TOPICS]:
        one = topics[name]
        counts = [f"{one['windows'].get(verdict, 0):,}" for verdict in verdicts]
        wrong = [one[kind] for kind in ("missing", "doubled", "altered")]
        table.add_row(name, *counts, *(f"{count:,}" for count in wrong), style="bold red" if any(wrong) else "")
    if len(topics) > SHOWN_TOPICS:
        table.caption = f"and {len(topics) - SHOWN_TOPICS} more"
    return table
