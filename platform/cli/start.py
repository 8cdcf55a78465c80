"""`headrace start NAME`: one process of the running platform."""

import argparse

from ..local import control
from ..runtime.layout import Layout

HELP = "Start one process that was stopped; return when it is ready.\n\nexample: headrace start broker-offline"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the process, as `headrace status` lists it")


def run(arguments: argparse.Namespace) -> int:
    control.start(Layout.from_environment(), arguments.name)
    return 0
