"""`headrace publish TOPIC`: the gate alone; and, when asked, published hours announced again to schedulers."""

import argparse
import json

from ..runtime import logs
from ..runtime.layout import Layout
from .errors import UsageError
from .load import publish

HELP = """publish the hours of a topic that have ended and are COMPLETE

With --announce-again nothing is published. The next run of the DAG `publish` or `load_events` emits these hours again, as
partitions of the asset headrace://warehouse/TOPIC. Each DAG that waits for the asset starts a run for each of these hours.

example: headrace publish access_log
         headrace publish access_log --announce-again --from 2015-05-17T00 --to 2015-05-17T23"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic")
    parser.add_argument("--wait", type=int, default=60, metavar="SECONDS", help="how long it waits for OPEN windows")
    parser.add_argument(
        "--restore",
        action="append",
        default=[],
        metavar="HOUR",
        help="add again what others removed from this hour (as 2015-05-17T10); may be given more than once",
    )
    parser.add_argument("--announce-again", action="store_true", help="announce published hours again")
    parser.add_argument(
        "--from", dest="first", metavar="HOUR", help="with --announce-again: the first hour (default: the oldest)"
    )
    parser.add_argument("--to", dest="last", metavar="HOUR", help="announced again up to here (default: the newest)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")


def run(arguments: argparse.Namespace) -> int:
    logs.configure("publish", level="WARNING")
    layout = Layout.from_environment()
    if arguments.announce_again:
        if arguments.restore:
            raise UsageError("--announce-again publishes nothing: give --restore without it")
        words, line = _announce_again(layout, arguments)
    elif arguments.first or arguments.last:
        raise UsageError("--from and --to belong to --announce-again: give it, too")
    else:
        words, line = publish(layout, arguments)
    print(json.dumps(words) if arguments.json else line)
    return 0


def _announce_again(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, object], str]:
    from ..spark.publish.announcements import announce_again
    from ..spark.warehouse.hours import hour_of_name
    from ..spark.warehouse.settings import WarehouseSettings
    from ..spark.warehouse.warehouse import Warehouse

    first, last = (None if name is None else hour_of_name(name) for name in (arguments.first, arguments.last))
    hours = announce_again(Warehouse(WarehouseSettings.of(layout)), arguments.topic, first=first, last=last)
    words: dict[str, object] = {"topic": arguments.topic, "announced_again": hours}
    if not hours:
        return words, f"publish: no hour of {arguments.topic} between these was announced before"
    return words, (
        f"publish: {len(hours)} hours of {arguments.topic}, {hours[0]} to {hours[-1]}: the next run of the DAG publish or "
        "load_events announces them again"
    )
