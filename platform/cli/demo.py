"""`headrace demo`: the whole pipeline on real input, audited."""

import argparse
import os
import sys
from pathlib import Path

from ..local.demo.demo import Demo
from .engine import add_engine, layout_of

HELP = """Send real events through the whole pipeline and print the audited result.

Uses the running platform if there is one, else starts one and stops it at the end (KEEP=1 leaves it running).
Exits 0 only if every window it made is COMPLETE in every tier.

example: headrace demo --log access.log"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log", type=Path, help="a web server's access log, combined format; without it the sample frontend gets requests"
    )
    add_engine(parser)
    parser.add_argument("--topic", default="access_log", help="default: access_log")
    parser.add_argument("--keep", action="store_true", default=os.environ.get("KEEP", "") not in ("", "0"), help="as KEEP=1")


def run(arguments: argparse.Namespace) -> int:
    demo = Demo(
        layout_of(arguments),
        log=arguments.log,
        topic=arguments.topic,
        keep=arguments.keep,
        say=lambda line: print(line, file=sys.stderr, flush=True),
        show=lambda line: print(line, flush=True),
    )
    return 0 if demo.run() else 1
