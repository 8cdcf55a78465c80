"""The shape of every command that is one process of the platform: `headrace NAME run …`, in the foreground, until SIGTERM."""

import argparse
from pathlib import Path


def run_parser(parser: argparse.ArgumentParser, *, what: str, example: str) -> argparse.ArgumentParser:
    """Return the parser of the word `run`, with `--status-file`; the command's own flags are to be added."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="run")
    run = actions.add_parser(
        "run",
        help="run in the foreground until SIGTERM",
        description=what,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: {example}",
    )
    run.add_argument("--status-file", type=Path, help="where to say 'ready', as JSON")
    return run
