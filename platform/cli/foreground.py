"""The parser shared by all commands that are one process of the platform: `headrace NAME run …`, in the foreground, until
SIGTERM.
"""

import argparse
from pathlib import Path


def run_parser(parser: argparse.ArgumentParser, *, what: str, example: str) -> argparse.ArgumentParser:
    """Return the parser of the sub-command `run`, with `--status-file`. The caller adds the command's own options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="run")
    run = actions.add_parser(
        "run",
        help="run in the foreground until SIGTERM",
        description=what,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: {example}",
    )
    run.add_argument("--status-file", type=Path, help="file in which the process writes its state as JSON")
    return run
