"""`headrace rates`: the live count of requests per minute, as the consumers last wrote it."""

import argparse
import json
import time
from pathlib import Path

from ..apps.request_rate_state import StateFolder, merged
from ..runtime.layout import Layout

HELP = "Show the live count of requests per minute of event time, over all partitions."


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    parser.epilog = "example: headrace rates --topic access_log --last 10"
    parser.add_argument("--topic", help="only this topic (default: all)")
    parser.add_argument("--last", type=int, metavar="N", help="only the latest N minutes of each topic (default: all)")
    parser.add_argument("--json", action="store_true", help="print a JSON array of topic, minute_start_ms, requests")
    parser.add_argument("--home", type=Path, default=layout.home, help="folder of the state files (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    rates = merged(StateFolder(arguments.home / "request-rate").all(arguments.topic))
    latest = slice(-arguments.last if arguments.last else 0, None)
    rows = [(topic, minute, count) for topic, minutes in rates.items() for minute, count in list(minutes.items())[latest]]
    if arguments.json:
        print(json.dumps([{"topic": topic, "minute_start_ms": minute, "requests": count} for topic, minute, count in rows]))
        return 0
    if not rows:
        print("nothing counted yet")
    for topic, minute_ms, count in rows:
        minute = time.strftime("%Y-%m-%d %H:%M", time.gmtime(minute_ms / 1000))
        print(f"{topic}  {minute}Z  {count:>8}")
    return 0
