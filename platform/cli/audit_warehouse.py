"""`headrace audit verify-table|recount-warehouse TOPIC`: the published hours against their proofs, and the files read again."""

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from ..runtime.layout import Layout

VERIFY = """Recompute the proofs of every published hour from the tables and files alone, without the audit service.
Exit: 0 everything is as it was proven, 1 something differs."""
RECOUNT = (
    """Read every file of a topic in the warehouse again, also those that look unchanged, and report its rows to the audit."""
)


def configure(actions: Any) -> None:
    """Add the two subcommands."""
    verify = actions.add_parser(
        "verify-table",
        help="recompute the proofs of a topic's published hours",
        description=VERIFY,
        epilog="example: headrace audit verify-table access_log",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verify.add_argument("topic")
    verify.add_argument("--json", action="store_true", help="a JSON array, one object an hour")
    recount = actions.add_parser("recount-warehouse", help="read a topic's files in the warehouse again", description=RECOUNT)
    recount.add_argument("topic")


def verify_table(arguments: argparse.Namespace) -> int:
    from ..spark.publish.verify import verify
    from ..spark.warehouse.settings import WarehouseSettings
    from ..spark.warehouse.warehouse import Warehouse

    found = []
    is_sound = True
    for one in verify(Warehouse(WarehouseSettings.of(Layout.from_environment())), arguments.topic):
        is_sound = is_sound and not one.faults
        if arguments.json:
            found.append(asdict(one))
            continue
        state = "OK" if not one.faults else "DIFFERS"
        print(f"{one.hour}  revision {one.revision}  {one.verdict:<10} {one.row_count:>12,} rows  {state}", flush=True)
        for words in (*one.faults, *filter(None, [one.note])):
            print(f"    {words}")
    if arguments.json:
        json.dump(found, sys.stdout)
        print()
    return 0 if is_sound else 1


def recount_warehouse(arguments: argparse.Namespace) -> int:
    from ..spark.publish.count_job import run_count

    done = run_count(Layout.from_environment(), arguments.topic, again=True)
    print(f"{done.row_count:,} rows of {done.topic} read again and reported; {done.altered_count:,} are not as they were decoded")
    return 0
