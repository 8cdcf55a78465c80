"""`headrace retention TOPIC`, or `--all`: hours of the warehouse that are past their age, told, or dropped with `--apply`."""

import argparse
from collections.abc import Mapping
from typing import Any

from ..runtime import logs
from .compact import add_topics, positive, told, warehouse_and_topics

HELP = """drop hours of the warehouse that are past the age in <warehouse>/retention.toml; without --apply only say which

    [default]
    hours = 720                # 30 days; without the file, and with 0, hours stay for ever
    [topics.access_log]
    hours = 8760

Dropped hours are noted in the table: they count as expired, never as missing. Files are deleted later, by `headrace compact`.

example: headrace retention --all
         headrace retention access_log --apply"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_topics(parser)
    parser.add_argument("--apply", action="store_true", help="drop them (default: a dry run, which changes nothing)")
    parser.add_argument("--dry-run", action="store_true", help="as without --apply")
    parser.add_argument("--hours", type=positive, metavar="N", help="this age, instead of the settings (one TOPIC only)")
    parser.add_argument("--most-hours", type=positive, default=31 * 24, metavar="N", help="dropped in this run (default 744)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")


def run(arguments: argparse.Namespace) -> int:
    from ..spark.maintenance.all_tables import retain_tables
    from .errors import UsageError

    logs.configure("retention", level="WARNING")
    if arguments.apply and arguments.dry_run:
        raise UsageError("--apply drops hours, and --dry-run drops none: give one of them")
    if arguments.all and arguments.hours is not None:
        raise UsageError("--hours belongs to one TOPIC; <warehouse>/retention.toml has the ages of all topics")
    warehouse, topics = warehouse_and_topics(arguments)
    words = {"apply": arguments.apply, "keep_hours": arguments.hours, "most_hours": arguments.most_hours}
    return told({"retention": (lambda: retain_tables(warehouse, topics, **words), _lines)}, as_json=arguments.json)


def _lines(results: Mapping[str, Any]) -> list[str]:
    lines = []
    for topic, one in results.items():
        if not one.keep_hours:
            lines.append(f"retention: {topic}: off, its hours stay for ever")
        elif not one.hours:
            lines.append(f"retention: {topic}: no hour is older than {one.keep_hours} hours")
        else:
            first, last = min(one.hours), max(one.hours)
            verb = "dropped" if one.is_applied else "would be dropped (--apply drops them)"
            more = f"; {one.more} more in the next run" if one.more else ""
            lines.append(
                f"retention: {topic}: {len(one.hours)} hours from {first} to {last}, {one.row_count:,} rows in "
                f"{one.file_count:,} files, {verb}{more}"
            )
    return lines
