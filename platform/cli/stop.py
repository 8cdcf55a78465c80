"""`headrace stop NAME`: one process of the running platform."""

import argparse

from ..local import control
from ..runtime.layout import Layout

HELP = "Stop one process and keep it stopped; return when it has ended.\n\nexample: headrace stop broker-offline"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the process, as `headrace status` lists it")


def run(arguments: argparse.Namespace) -> int:
    control.stop(Layout.from_environment(), arguments.name)
    return 0
