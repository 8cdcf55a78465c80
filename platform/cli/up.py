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
        print("it is secured (docs/RIGHTS.md). For commands of your own:")
        print("\n".join(f"  export {name}={path}" for name, path in layout.as_role("operator").items()))
        print(f"In the console, log in as operator; the password is in {layout.security}/operator/password")
    return 0
