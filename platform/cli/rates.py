"""`headrace rates`: the live count of requests per minute, from the consumers' state files."""

import argparse
import json
import time
from pathlib import Path

from ..apps.request_rate.state import StateFolder, merged
from ..errors import HeadraceError
from ..runtime.layout import Layout
from .topic_names import topics_if_reachable, unknown_topic

HELP = """Show the live count of requests per minute of event time, over all partitions.

The platform's consumers count one topic, access_log; `headrace consumer run --topic NAME` counts another."""


class NotCounted(HeadraceError):
    """The topic exists, but no consumer counts its events."""


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    parser.epilog = "example: headrace rates --topic access_log --last 10"
    parser.add_argument("--topic", help="only this topic (default: all)")
    parser.add_argument("--last", type=int, metavar="N", help="only the latest N minutes of each topic (default: all)")
    parser.add_argument("--json", action="store_true", help="print a JSON array of topic, minute_start_ms, requests")
    parser.add_argument(
        "--bootstrap",
        default=layout.live_bootstrap,
        help="cluster to search for a topic that no consumer counts (default: %(default)s)",
    )
    parser.add_argument("--home", type=Path, default=layout.home, help="folder of the state files (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    rates = merged(StateFolder(arguments.home / "request-rate").all(arguments.topic))
    latest = slice(-arguments.last if arguments.last else 0, None)
    rows = [(topic, minute, count) for topic, minutes in rates.items() for minute, count in list(minutes.items())[latest]]
    if not rows:
        nothing = _why_nothing(arguments.topic, counted_topics(arguments.home), arguments.bootstrap)
        if not arguments.json:
            print(nothing)
    if arguments.json:
        print(json.dumps([{"topic": topic, "minute_start_ms": minute, "requests": count} for topic, minute, count in rows]))
        return 0
    for topic, minute_ms, count in rows:
        minute = time.strftime("%Y-%m-%d %H:%M", time.gmtime(minute_ms / 1000))
        print(f"{topic}  {minute}Z  {count:>8}")
    return 0


def counted_topics(home: Path) -> list[str]:
    """Return the topics that this platform's consumers count, sorted."""
    found = set()
    for path in (home / "run").glob("*.json"):
        words = _words(path)
        if isinstance(words, dict) and "group" in words and isinstance(words.get("topic"), str):
            found.add(words["topic"])
    return sorted(found)


def _words(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _why_nothing(topic: str | None, counted: list[str], bootstrap: str) -> str:
    """Return why there is nothing to show. Raises UsageError for an unknown topic, NotCounted for one that no consumer
    counts.
    """
    counts = f"the consumers count {', '.join(counted)}" if counted else "no consumer counts anything here"
    sends = f"`headrace replay LOG --topic {topic or (counted or ['access_log'])[0]}` sends some"
    if topic is None:
        return (
            f"nothing counted yet: {counts}, and no event of it has come; {sends}"
            if counted
            else f"nothing counted yet: {counts}"
        )
    if topic in counted:
        return f"nothing counted yet of {topic!r}: its consumers have met no event; {sends}"
    there = topics_if_reachable(bootstrap)
    if there is not None and topic not in there:
        advice = f"Here {counts}; `headrace topic list` shows the topics there are."
        raise unknown_topic(topic, f"on {bootstrap}", {*there, *counted}, advice)
    unsure = f" (nor does the live cluster answer at {bootstrap} to say whether there is such a topic)" if there is None else ""
    raise NotCounted(
        f"nothing counted yet of {topic!r}, and no consumer counts it{unsure}: {counts}; `headrace consumer run --topic {topic} "
        f"--group rates-{topic}` would"
    )
