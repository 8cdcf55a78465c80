"""`headrace load TOPIC`, or `--all`: the load, the count, the gate. Each step may be run again at any time; nothing is loaded
twice.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from ..client.errors import UnknownTopic
from ..errors import HeadraceError
from ..runtime import logs
from ..runtime.layout import Layout, is_internal
from . import load_all
from .errors import UsageError
from .topic_names import topics_if_reachable, unknown_topic

HELP = """load what is new of a topic into the warehouse, report what was written, publish the hours that are COMPLETE

example: headrace load access_log
         headrace load --all
         headrace load access_log --step publish --wait 30
         headrace load access_log --reload 2015-05-17T10"""


class NotMirroredYet(HeadraceError):
    """The topic exists on the live cluster only."""

    retriable = True


METRICS_VARIABLE = "HEADRACE_METRICS_FOLDER"
STEPS = ("load", "count", "publish")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", nargs="?")
    parser.add_argument("--all", action="store_true", help="every topic that has something new, in one Spark application")
    parser.add_argument("--step", choices=STEPS, help="only this step (default: all three, in this order)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument(
        "--metrics-folder",
        type=Path,
        default=os.environ.get(METRICS_VARIABLE) or None,
        metavar="DIR",
        help="with --all: leave headrace_load_STEP.prom there, for node_exporter's textfile collector "
        f"(default: what {METRICS_VARIABLE} names)",
    )
    parser.add_argument("--master", help="Spark's master (default: local[2])")
    parser.add_argument(
        "--restore",
        action="append",
        default=[],
        metavar="HOUR",
        help="publish: add again what others removed from this hour (as 2015-05-17T10); may be given more than once",
    )
    parser.add_argument(
        "--reload",
        action="append",
        default=[],
        metavar="HOUR[..HOUR]",
        help="load: first read the rows of these hours again from the offline log, in place of those in the warehouse (a lost or "
        "damaged file; records in quarantine whose schema is known by now); may be given more than once",
    )
    parser.add_argument("--wait", type=int, default=60, metavar="SECONDS", help="how long publish waits for OPEN windows")


def run(arguments: argparse.Namespace) -> int:
    logs.configure("load", level="WARNING" if arguments.step is None else "INFO")
    layout = Layout.from_environment()
    steps: tuple[str, ...] = STEPS if arguments.step is None else (arguments.step,)
    if arguments.all:
        if arguments.topic or arguments.reload or arguments.restore:
            raise UsageError("--all is of every topic: give no TOPIC with it, and --reload and --restore with one TOPIC only")
        return load_all.run(layout, arguments, steps)
    if arguments.topic is None:
        raise UsageError("which topic? `headrace load TOPIC`, or `headrace load --all` for every one that has something new")
    results: dict[str, Any] = {"topic": arguments.topic}
    if arguments.reload:
        if "load" not in steps:
            raise UsageError(f"--reload belongs to the step load, not to {arguments.step}")
        steps = ("reload", *steps)
    for step in steps:
        words, line = _STEPS[step](layout, arguments)
        results[step] = words
        if not arguments.json:
            print(line, flush=True)
    if arguments.json:
        print(json.dumps(results))
    return 0


def _load(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..spark.load.load_job import LoadJob
    from ..spark.load.settings import LoadSettings

    if is_internal(arguments.topic):
        raise UsageError(f"topic {arguments.topic!r} is the platform's own: those are not loaded into the warehouse")
    try:
        done = LoadJob(LoadSettings.of(layout, arguments.topic, master=arguments.master)).run()
    except UnknownTopic as error:
        raise _not_there(layout, arguments.topic) from error
    words = {
        "run": done.run,
        "snapshot_id": done.snapshot_id,
        "row_count": done.row_count,
        "file_count": done.file_count,
        "quarantined": dict(done.quarantined),
        "ranges": [
            {"partition": one.partition, "from_offset": one.from_offset, "to_offset": one.to_offset} for one in done.ranges
        ],
    }
    if done.run is None:
        return words, f"load: nothing new in {done.topic}"
    aside = "".join(f", {count} {code} in quarantine" for code, count in done.quarantined.items())
    return words, f"load: {done.row_count:,} rows of {done.topic} in {done.file_count} files{aside}"


def _reload(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..spark.load.reload_job import ReloadJob
    from ..spark.load.settings import LoadSettings
    from ..spark.warehouse.hours import hour_of_name, hours_of_names

    settings = LoadSettings.of(layout, arguments.topic, master=arguments.master)
    done = ReloadJob(settings, hours_of_names(arguments.reload), restore={hour_of_name(name) for name in arguments.restore}).run()
    words = {
        "hours": list(done.hours),
        "load_count": done.load_count,
        "row_count": done.row_count,
        "replaced_count": done.replaced_count,
        "file_count": done.file_count,
        "snapshot_id": done.snapshot_id,
    }
    read = f"{done.row_count:,} rows of {done.topic} in {len(done.hours)} hours read again, in {done.file_count} files"
    return words, f"reload: {read}; there stood {done.replaced_count:,}"


def _not_there(layout: Layout, topic: str) -> HeadraceError:
    """Return the error for a topic that is missing on the offline cluster, from which the load reads."""
    live, offline = topics_if_reachable(layout.live_bootstrap) or [], topics_if_reachable(layout.offline_bootstrap) or []
    if topic in live:
        return NotMirroredYet(
            f"topic {topic!r} is on the live cluster and not on the offline one at {layout.offline_bootstrap}, from which is "
            "loaded: the mirror copies it within seconds; `headrace status` shows whether it runs"
        )
    advice = "`headrace topic list --cluster offline` shows those there are."
    return unknown_topic(topic, f"on the offline cluster at {layout.offline_bootstrap}", {*live, *offline}, advice)


def _count(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..spark.publish.count_job import run_count

    done = run_count(layout, arguments.topic)
    words = {
        "load_count": done.load_count,
        "altered_count": done.altered_count,
        "row_count": done.row_count,
        "quarantined_count": done.quarantined_count,
        "window_count": done.window_count,
    }
    if not done.load_count:
        return words, f"count: the audit knows every row of {done.topic} already"
    altered = f"; {done.altered_count:,} of them are not as they were decoded" if done.altered_count else ""
    loads = f"{done.window_count} windows ({done.load_count} loads)"
    return words, f"count: reported {done.row_count:,} rows to the audit, in {loads}{altered}"


def publish(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Publish what is COMPLETE of `arguments.topic`; return the result as JSON values and as lines."""
    from ..spark.publish.publish_job import run_publish

    done = run_publish(layout, arguments.topic, wait_ms=arguments.wait * 1_000, restore=arguments.restore)
    words = {
        "published": list(done.published),
        "withdrawn": dict(done.withdrawn),
        "open_hours": list(done.open_hours),
        "pending": dict(done.pending),
        "shut": dict(done.shut),
        "complete_through": done.complete_through,
        "expired_through": done.expired_through,
    }
    lines = [f"publish: {len(done.open_hours)} hours of {done.topic} are published, {len(done.published)} of them now"]
    if done.complete_through is not None:
        lines[0] += f", complete through {done.complete_through}"
    if done.expired_through is not None:
        lines[0] += f"; hours through {done.expired_through} have expired by retention"
    lines += [f"publish: {hour} is withdrawn: {reason}" for hour, reason in done.withdrawn]
    lines += [f"publish: {hour} stays as it was published: {reason}" for hour, reason in done.pending]
    lines += [f"publish: {hour} stays shut: {reason}" for hour, reason in done.shut]
    return words, "\n".join(lines)


_STEPS = {"reload": _reload, "load": _load, "count": _count, "publish": publish}
