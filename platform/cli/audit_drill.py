"""`headrace audit drill NAME`: plants a fault in the running platform, and checks that the audit tells it."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from ..runtime import logs
from ..runtime.layout import Layout
from .errors import UsageError

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

DRILLS = {
    "loss": "take one record out of the offline log",
    "double": "put one record into the offline log twice",
    "alter": "change one byte of a record in the offline log, and make its checksum right",
    "swap": "swap a Parquet file for one with a row less and a row doubled",
    "table": "delete a row from what readers of a table see",
    "topic": "delete a topic and create it again under its name",
    "quarantine": "delete a quarantine topic with records in it",
    "silence": "hold one reporter back before it seals its window",
    "memory": "kill an application that has an event in memory",
}


def configure(actions: "Actions") -> None:
    """Add the subcommand."""
    drill = actions.add_parser(
        "drill",
        help="plant a fault in the running platform and check that the audit reports it",
        description="Plant a fault in a topic made for it. Check that the audit reports the exact records and the tier in time.\n"
        "The broker of the offline side is restarted for a fault in its log. The topic is removed at the end.\n"
        "Exit code 0: reported correctly and in time; 1: not.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: headrace audit drill loss",
    )
    drills = drill.add_subparsers(dest="drill", required=True, metavar="|".join(DRILLS))
    for name, what in DRILLS.items():
        one = drills.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        one.add_argument("--json", action="store_true", help="print what was done and seen as JSON")
        one.add_argument("--topic", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Run the drill and return its exit code."""
    from ..local.drills import deletion_drills, log_drills, silence_drill, swap_drill
    from ..local.interrupts import Interrupts

    if arguments.topic is not None:
        raise UsageError(
            f"a drill damages data, so it never touches a topic that was there before: it makes one of its own. Leave out "
            f"--topic {arguments.topic}"
        )
    logs.configure("drill", "WARNING", "text")

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    layout = Layout.from_environment()
    # A signal ends the drill, and what it changed is put right first.
    with Interrupts(progress):
        match arguments.drill:
            case "swap":
                result = swap_drill.run(layout, progress=progress)
            case "silence" | "memory":
                result = silence_drill.run(layout, arguments.drill, progress=progress)
            case "table" | "topic" | "quarantine":
                result = deletion_drills.run(layout, arguments.drill, progress=progress)
            case drill:
                result = log_drills.run(layout, drill, progress=progress)
    if arguments.json:
        json.dump(result.as_json(), sys.stdout)
        print()
    else:
        print(result.in_words())
    return 0 if result.held else 1
