"""`headrace audit known-loss|erased`: an operator's word on the difference of one window at one tier, with name and reason."""

import argparse
from typing import TYPE_CHECKING, Any, Literal

from ..runtime.layout import Layout
from .audit_records import window_at
from .audit_topic import TAKEN_IN_MS, await_taken, login_name, sender
from .errors import UsageError

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]


def configure(actions: "Actions") -> None:
    """Add the two subcommands."""
    layout = Layout.from_environment()
    for name, words, example in (
        ("known-loss", "mark a window's difference as known", "the disk of www1 burned on Friday"),
        ("erased", "mark a window's missing records as deleted on purpose", "request 4711 of a customer"),
    ):
        one = actions.add_parser(
            name,
            help=words,
            description=f"{words[0].upper()}{words[1:]}, with a name and a reason. The window shows it and is "
            "ACCEPTED (never COMPLETE) as long as the difference is just this one.",
            epilog=f"example: headrace audit {name} access_log --window '2015-05-17 10:00' --tier offline --reason \"{example}\"",
        )
        one.add_argument("topic", metavar="TOPIC")
        one.add_argument("--window", required=True, metavar="TIME", help="a moment in the window, as for `headrace audit which`")
        one.add_argument(
            "--tier",
            help="the tier that differs (default: the first one that does); producer: lost reports; quarantine: its topic",
        )
        one.add_argument("--reason", required=True, help="shown with the window")
        one.add_argument("--by", default=login_name(), help="who says so (default: %(default)s)")
        one.add_argument("--live", default=layout.live_bootstrap, help="bootstrap of the live cluster (default %(default)s)")
        one.add_argument("--url", default=layout.audit_url, help="the audit service (default %(default)s)")


def tell(arguments: argparse.Namespace, kind: Literal["lost", "erased"]) -> int:
    """Write the word to the audit topic and return once the window's verdict follows from it."""
    from ..audit.model.checks.digests import digest_of_words
    from ..audit.model.codec import decode, encode
    from ..audit.model.messages import KnownDifference
    from ..audit.model.tiers import PRODUCER, QUARANTINE
    from ..audit.publisher.sending import send_and_flush
    from ..runtime.clock import SystemClock

    window = window_at(arguments.url, arguments.topic, arguments.window)
    tier = arguments.tier or window["first_bad_tier"]
    mine = [one for one in window["differences"] if one["tier"] == tier]
    figures = {name: sum(one[name] for one in mine) for name in ("missing", "doubled", "altered")}
    if tier == QUARANTINE and not mine:
        figures["missing"] = window["quarantined"]
    if tier == PRODUCER:
        figures["missing"] = window.get("unread_reports", 0)
    if not any(figures.values()):
        raise UsageError(
            f"nothing differs at {tier or 'any tier'} in this window of {arguments.topic}: it is {window['verdict']}, "
            f"{window['reason']}"
        )
    clock = SystemClock()
    known = KnownDifference(
        topic=arguments.topic,
        window_start_ms=window["window_start_ms"],
        tier=tier,
        kind=kind,
        at_ms=clock.now_ms(),
        by=arguments.by,
        reason=arguments.reason,
        digest=digest_of_words(mine),
        **figures,
    )
    decode(encode(known))
    with sender(arguments.live) as producer:
        send_and_flush(producer, clock, [known], TAKEN_IN_MS)

    def changed() -> dict[str, Any] | None:
        now = window_at(arguments.url, arguments.topic, str(window["window_start_ms"]))
        return None if now == window else now

    after = await_taken("the word", changed)
    print(f"{arguments.topic}, {kind} at {tier} by {arguments.by}: the window is {after['verdict']}, {after['reason']}")
    return 0
