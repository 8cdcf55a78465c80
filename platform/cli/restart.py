"""`headrace restart NAME`: one process of the running platform."""

import argparse

from ..local import control
from ..runtime.layout import Layout

HELP = "Stop one process and start it again; return when it is ready.\n\nexample: headrace restart broker-offline"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the process, as `headrace status` lists it")


def run(arguments: argparse.Namespace) -> int:
    control.restart(Layout.from_environment(), arguments.name)
    return 0
