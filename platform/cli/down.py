"""`headrace down`: stop everything, in reverse order."""

import argparse

from ..local import control
from ..runtime.layout import Layout

HELP = "Stop the platform, each process before those it needs.\n\nexample: headrace down"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=int, default=90, metavar="SECONDS", help="give up after this long (default: 90)")


def run(arguments: argparse.Namespace) -> int:
    layout = Layout.from_environment()
    stopped = control.down(layout, timeout_ms=arguments.timeout * 1000)
    print(f"the platform in {layout.home} {'has stopped' if stopped else 'was not running'}")
    return 0
