"""`headrace load TOPIC`: the load, the count, the gate. Each step may be run again at any time; nothing is loaded twice."""

import argparse
import json
from typing import Any

from ..client.errors import UnknownTopic
from ..errors import HeadraceError
from ..runtime import logs
from ..runtime.layout import Layout, is_internal
from .errors import AskedWrongly
from .topic_names import topics_if_reachable, unknown_topic

HELP = """load what is new of a topic into the warehouse, report what was written, publish the hours that are COMPLETE

example: headrace load access_log
         headrace load access_log --step publish --wait 30"""


class NotMirroredYet(HeadraceError):
    """The topic exists on the live cluster only."""

    retriable = True


STEPS = ("load", "count", "publish")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic")
    parser.add_argument("--step", choices=STEPS, help="only this step (default: all three, in this order)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--master", help="Spark's master (default: local[2])")
    parser.add_argument("--wait", type=int, default=60, metavar="SECONDS", help="how long publish waits for OPEN windows")


def run(arguments: argparse.Namespace) -> int:
    logs.configure("load", level="WARNING" if arguments.step is None else "INFO")
    layout = Layout.from_environment()
    results: dict[str, Any] = {"topic": arguments.topic}
    for step in STEPS if arguments.step is None else (arguments.step,):
        words, line = _STEPS[step](layout, arguments)
        results[step] = words
        if not arguments.json:
            print(line, flush=True)
    if arguments.json:
        print(json.dumps(results))
    return 0


def _load(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..spark.load.load_job import LoadJob, LoadSettings

    if is_internal(arguments.topic):
        raise AskedWrongly(f"topic {arguments.topic!r} is the platform's own: those are not loaded into the warehouse")
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
        "row_count": done.row_count,
        "quarantined_count": done.quarantined_count,
        "window_count": done.window_count,
    }
    if not done.load_count:
        return words, f"count: the audit has every count of {done.topic} already"
    return (
        words,
        f"count: reported {done.row_count:,} rows to the audit, in {done.window_count} windows ({done.load_count} loads)",
    )


def _publish(layout: Layout, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from ..spark.publish.publish_job import run_publish

    done = run_publish(layout, arguments.topic, wait_ms=arguments.wait * 1_000)
    words = {
        "published": list(done.published),
        "withdrawn": list(done.withdrawn),
        "open_hours": list(done.open_hours),
        "shut": dict(done.shut),
    }
    lines = [f"publish: {len(done.open_hours)} hours of {done.topic} are open ({len(done.published)} of them now)"]
    lines += [f"publish: {hour} is withdrawn" for hour in done.withdrawn]
    lines += [f"publish: {hour} stays shut: {reason}" for hour, reason in done.shut]
    return words, "\n".join(lines)


_STEPS = {"load": _load, "count": _count, "publish": _publish}
