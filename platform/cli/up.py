"""`headrace up`: start the whole platform and wait until it is ready."""

import argparse
import sys

from ..local import control
from .engine import add_engine, layout_of

HELP = "Start every process of the platform and return when all are ready.\n\nexample: PORT_SHIFT=10000 headrace up"


def configure(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--timeout", type=int, default=180, metavar="SECONDS", help="give up after this long (default: 180)")


def run(arguments: argparse.Namespace) -> int:
    layout = layout_of(arguments)
    started = control.up(layout, timeout_ms=arguments.timeout * 1000, progress=lambda line: print(line, file=sys.stderr))
    print(f"the platform in {layout.home} {'is up' if started else 'was up already'}; console: {layout.console_url}/")
    if layout.is_secured:
        folder = layout.security / "operator"
        print(
            f"it is secured (docs/RIGHTS.md): commands reach it with --client-config {folder}/client.properties "
            f"and --zookeeper-config {folder}/zookeeper.properties"
        )
    return 0
