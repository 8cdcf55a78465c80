"""`headrace audit tier list|add|remove`: which groups take part in a topic's verdicts, with who says so and why."""

import argparse
import json
from typing import TYPE_CHECKING, Any, Literal

from ..runtime.layout import Layout
from .audit_records import instant
from .audit_topic import TAKEN_IN_MS, await_taken, login_name, sender
from .audited_topics import why_nothing
from .errors import UsageError

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

NOW = "now"


def configure(actions: "Actions") -> None:
    """Add `tier` and its three subcommands."""
    layout = Layout.from_environment()
    tier = actions.add_parser(
        "tier",
        help="name the groups that take part in a topic's verdicts",
        description="A group that reports has a row beside the verdict of each window. If you add it, it takes part in the "
        "verdict: windows are UNKNOWN while it is silent, and their hours stay shut.",
        epilog='example: headrace audit tier add clicks consumer:fraud --reason "billing depends on it"',
    )
    ways = tier.add_subparsers(dest="tier_action", required=True, metavar="list|add|remove")
    list_ = ways.add_parser(
        "list",
        help="list a topic's tiers, and who named them",
        description="List a topic's tiers and who named them; without a topic, the groups that operators have added or removed.",
        epilog="example: headrace audit tier list clicks",
    )
    list_.add_argument("topic", metavar="TOPIC", nargs="?")
    list_.add_argument("--json", action="store_true", help="a JSON array, one object a tier")
    add = ways.add_parser(
        "add",
        help="have a group take part in the verdict",
        description="Have a group take part in the verdict on windows that begin at --from or later.",
        epilog='example: headrace audit tier add clicks consumer:fraud --reason "billing depends on it"',
    )
    remove = ways.add_parser(
        "remove",
        help="have a group beside the verdict again",
        description="Give a group a row beside the verdict again. Windows that begin at --from or later are judged again.",
        epilog='example: headrace audit tier remove clicks consumer:fraud --reason "the trial is over"',
    )
    for one, default in ((add, NOW), (remove, None)):
        one.add_argument("topic", metavar="TOPIC")
        one.add_argument("tier", metavar="consumer:GROUP")
        one.add_argument(
            "--from",
            dest="from_",
            default=default,
            metavar="now|TIME",
            help="now: the next window that begins; or a moment in the first window, '2015-05-17 10:05' (UTC). Default: "
            + (
                "now" if default else "the earliest window that is OPEN, or UNKNOWN because the group is silent; without one, now"
            ),
        )
        one.add_argument("--reason", required=True, help="shown in the list")
        one.add_argument("--by", default=login_name(), help="who says so (default: %(default)s)")
        one.add_argument("--live", default=layout.live_bootstrap, help="bootstrap of the live cluster (default %(default)s)")
    for one in (list_, add, remove):
        one.add_argument("--url", default=layout.audit_url, help="the audit service (default %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen subcommand and return its exit code."""
    match arguments.tier_action:
        case "add":
            return _change(arguments, "add")
        case "remove":
            return _change(arguments, "remove")
        case _:
            return _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from ..audit import client
    from ..audit.model.windows import in_words, utc

    found = client.tiers(arguments.url, arguments.topic)
    if arguments.json:
        print(json.dumps(found))
        return 0
    for one in found:
        topic = "" if arguments.topic else f"{one['topic']}  "
        role = "left out" if one["left_out"] else "in the verdict" if one["takes_part"] else "beside the verdict"
        since = f" from {in_words(one['from_ms'])} UTC on" if one["from_ms"] is not None else ""
        by = f", named by the {one['named_by']}" if one["named_by"] == "settings" else ""
        print(f"{topic}{one['tier']}  {role}{since}{by}")
        for change in one["changes"]:
            what = {"add": "added", "remove": "removed"}[change["change"]]
            start = in_words(change["from_ms"])
            print(f"    {what} from {start} UTC on, by {change['by']} at {utc(change['at_ms'])} UTC: {change['reason']}")
        if one["contradiction"]:
            print(f"    without effect: {one['contradiction']}")
    if not found:
        print("No operator has added or removed a group.")
    return 0


def _change(arguments: argparse.Namespace, change: Literal["add", "remove"]) -> int:
    """Write the word to the audit topic and return once the audit service has taken it."""
    from ..audit.model.codec import decode, encode
    from ..audit.model.errors import MalformedReport
    from ..audit.model.messages import TierChange
    from ..audit.model.windows import in_words
    from ..audit.publisher.sending import send_and_flush
    from ..runtime.clock import SystemClock

    clock = SystemClock()
    _see_change(arguments, change)
    word = TierChange(
        topic=arguments.topic,
        tier=arguments.tier,
        change=change,
        from_ms=_first_window(arguments, clock.now_ms()),
        at_ms=clock.now_ms(),
        by=arguments.by,
        reason=arguments.reason,
    )
    try:
        decode(encode(word))
    except MalformedReport as error:
        raise UsageError(f"{error}. Only groups are added and removed; name other tiers in the audit's settings") from error
    with sender(arguments.live) as producer:
        send_and_flush(producer, clock, [word], TAKEN_IN_MS)

    def listed() -> bool | None:
        mine = _entry(arguments)
        return (
            any((one["at_ms"], one["by"]) == (word.at_ms, arguments.by) for one in (mine or {"changes": []})["changes"]) or None
        )

    await_taken("the change", listed)
    effect = {
        "add": "takes part in the verdict: windows are UNKNOWN while it is silent",
        "remove": "has a row beside the verdict; the windows are judged again",
    }[change]
    print(f"{arguments.topic}, from the window of {in_words(word.from_ms)} UTC on: {arguments.tier} {effect}")
    return 0


def _see_change(arguments: argparse.Namespace, change: str) -> None:
    """Raise UsageError for an unknown topic, and for a change that the settings contradict or that changes nothing."""
    from ..audit import client

    if arguments.topic not in client.topics(arguments.url):
        why_nothing(arguments.topic, url=arguments.url, live=arguments.live)
    mine = _entry(arguments)
    who, topic = arguments.tier, arguments.topic
    if change == "remove" and (mine is None or not (mine["takes_part"] or mine["changes"])):
        raise UsageError(f"{who} takes no part in the verdicts of {topic}: it was never added")
    if mine is not None and mine["named_by"] == "settings":
        what = (
            "already"
            if change == "add"
            else "so only they can remove it: take it out of `tiers` or `adds`, and restart the audit"
        )
        raise UsageError(f"the audit's settings name {who} for {topic}{' ' if change == 'add' else ', '}{what}")
    if mine is not None and mine["left_out"]:
        raise UsageError(f"the audit's settings leave {who} out for {topic}: take it out of `without`, and restart the audit")


def _entry(arguments: argparse.Namespace) -> dict[str, Any] | None:
    from ..audit import client

    found = client.tiers(arguments.url, arguments.topic)
    return next((one for one in found if one["tier"] == arguments.tier), None)


def _first_window(arguments: argparse.Namespace, now_ms: int) -> int:
    """Return the start of the first window that the change is of."""
    from ..audit.client import completeness
    from ..audit.model.windows import WINDOW_MS, window_start_ms

    next_ms = window_start_ms(now_ms) + WINDOW_MS
    if arguments.from_ == NOW:
        return next_ms
    if arguments.from_ is not None:
        return window_start_ms(instant(arguments.from_))
    waiting = [
        one["window_start_ms"]
        for one in completeness(arguments.url, arguments.topic)
        if one["verdict"] == "OPEN" or (one["verdict"] == "UNKNOWN" and arguments.tier in one["silent"])
    ]
    return int(min([next_ms, *waiting]))
