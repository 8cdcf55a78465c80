"""`headrace compact TOPIC`, or `--all`: small files of the warehouse merged, old snapshots forgotten, unnamed files deleted."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..runtime import logs
from ..runtime.layout import Layout
from .errors import UsageError

HELP = """merge the small files of closed hours, forget old snapshots, delete files that no snapshot names

Rows, proofs and the audit's reports do not change; loads and publishes may run at the same time. Without a JVM.

example: headrace compact access_log
         headrace compact --all
         headrace compact access_log --hour 2015-05-17T00..2015-05-17T23 --step merge
         headrace compact access_log --step expire --older-than 24 --keep 2 --grace 0"""

STEPS = ("merge", "expire")


def configure(parser: argparse.ArgumentParser) -> None:
    add_topics(parser)
    parser.add_argument("--step", choices=STEPS, help="only this step (default: both, in this order)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    merging = parser.add_argument_group("merge")
    merging.add_argument(
        "--hour", action="append", default=[], metavar="HOUR[..HOUR]", help="only these hours, closed or not; may be repeated"
    )
    merging.add_argument(
        "--target-file-size-bytes", type=positive, metavar="BYTES",
        help="size of the new files (default: the table's write.target-file-size-bytes, or 134217728)",
    )  # fmt: skip
    merging.add_argument("--min-input-files", type=positive, default=2, metavar="N", help="leave hours with fewer small files")
    merging.add_argument("--closed-after", type=_number, default=60, metavar="MINUTES", help="after an hour's end (default 60)")
    merging.add_argument("--most-hours", type=positive, default=1_000, metavar="N", help="of a topic in this run (default 1000)")
    expiring = parser.add_argument_group("expire")
    expiring.add_argument(
        "--older-than", type=_number, metavar="HOURS",
        help="age of snapshots (default: the table's history.expire.max-snapshot-age-ms, or 120 hours)",
    )  # fmt: skip
    expiring.add_argument(
        "--keep", type=positive, metavar="N",
        help="snapshots of each branch (default: the table's history.expire.min-snapshots-to-keep, or 10)",
    )  # fmt: skip
    expiring.add_argument(
        "--grace", type=_number, default=72, metavar="HOURS", help="how long a file stays that no snapshot names (default 72)"
    )


def run(arguments: argparse.Namespace) -> int:
    from ..spark.maintenance.all_tables import PROOFS, compact_tables, expire_tables
    from ..spark.maintenance.settings import CompactSettings, ExpirySettings
    from ..spark.warehouse.hours import hours_of_names

    logs.configure("compact", level="WARNING")
    if arguments.all and arguments.hour:
        raise UsageError("--hour belongs to one TOPIC, not to --all")
    warehouse, topics = warehouse_and_topics(arguments)
    topics = [*topics, *([PROOFS] if arguments.all else [])]
    merging = CompactSettings(
        target_bytes=arguments.target_file_size_bytes,
        min_files=arguments.min_input_files,
        closed_after_ms=arguments.closed_after * 60_000,
        hours=hours_of_names(arguments.hour),
        most_hours=arguments.most_hours,
    )
    expiring = ExpirySettings(
        max_age_ms=None if arguments.older_than is None else arguments.older_than * 3_600_000,
        min_snapshots=arguments.keep,
        grace_ms=arguments.grace * 3_600_000,
    )
    steps: dict[str, tuple[Callable[[], Any], Callable[[Any], list[str]]]] = {
        "merge": (lambda: compact_tables(warehouse, topics, merging), _merged),
        "expire": (lambda: expire_tables(warehouse, topics, expiring), _expired),
    }
    wanted = STEPS if arguments.step is None else (arguments.step,)
    return told({name: steps[name] for name in wanted}, as_json=arguments.json)


def add_topics(parser: argparse.ArgumentParser) -> None:
    """Add TOPIC and --all."""
    parser.add_argument("topic", nargs="?")
    parser.add_argument("--all", action="store_true", help="every table of the warehouse")


def warehouse_and_topics(arguments: argparse.Namespace) -> tuple[Any, Sequence[str]]:
    """Return the warehouse and the topics that are asked for. Raises UsageError, NoSuchTable."""
    from ..spark.warehouse.settings import WarehouseSettings
    from ..spark.warehouse.warehouse import Warehouse

    if arguments.all == (arguments.topic is not None):
        raise UsageError("one TOPIC, or --all for every table of the warehouse")
    warehouse = Warehouse(WarehouseSettings.of(Layout.from_environment()))
    if arguments.topic is not None:
        warehouse.existing_table(arguments.topic)
    return warehouse, warehouse.topics() if arguments.all else [arguments.topic]


def told(steps: Mapping[str, tuple[Callable[[], Any], Callable[[Any], list[str]]]], *, as_json: bool) -> int:
    """Run the steps and print what they did; return FAULTS_EXIT_CODE if a table is at fault."""
    from ..spark.errors import FAULTS_EXIT_CODE
    from ..spark.maintenance.all_tables import words_of

    results: dict[str, Any] = {}
    is_whole = True
    for name, (work, lines) in steps.items():
        done = work()
        is_whole = is_whole and not done.faults
        results[name] = {
            "topics": {topic: asdict(one) for topic, one in done.results.items()},
            "faults": {topic: words_of(fault) for topic, fault in sorted(done.faults.items())},
        }
        if as_json:
            continue
        print("\n".join(lines(done.results)) or f"{name}: nothing to do", flush=True)
        for topic, fault in sorted(done.faults.items()):
            print(f"{name}: topic {topic}: {words_of(fault)}", file=sys.stderr)
    if as_json:
        print(json.dumps(results))
    return 0 if is_whole else FAULTS_EXIT_CODE


def _merged(results: Mapping[str, Any]) -> list[str]:
    lines = []
    for topic, one in results.items():
        if one.files_before:
            hours = f" of {len(one.hours)} hours" if one.hours else ""
            more = f"; {one.more} hours are left for the next run" if one.more else ""
            files = f"{one.files_before:,} files{hours} into {one.files_after:,}"
            lines.append(f"merge: {one.topic}: {files}, {one.row_count:,} rows as they were{more}")
        lines += [f"merge: {topic}: {hour} stays as it is: {reason}" for hour, reason in one.left.items()]
        lines += [f"merge: {topic}: {one.manifests_merged} manifests merged"] if one.manifests_merged else []
    return lines


def _expired(results: Mapping[str, Any]) -> list[str]:
    return [
        f"expire: {one.topic}: {one.snapshots_expired} snapshots forgotten, {one.snapshots_left} left; "
        f"{one.files_deleted:,} files deleted ({one.bytes_deleted:,} bytes), {one.files_waiting:,} wait"
        for one in results.values()
        if one.snapshots_expired or one.files_deleted or one.files_waiting
    ]


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def positive(text: str) -> int:
    if _number(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
