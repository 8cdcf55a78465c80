"""`headrace mirror status|pause|resume|throttle`: show and steer a running mirror, whole or by topic."""

import argparse
import getpass
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import HeadraceError
from ..mirror.control.orders import ALL, LEAST_BYTES_PER_S, Orders, Pause
from ..mirror.control.orders_file import orders_path, read_orders, write_orders
from ..runtime.clock import SystemClock
from ..runtime.layout import Layout
from ..runtime.status import read_status
from .errors import UsageError
from .topic_names import unknown_topic

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

TAKEN_MS = 10_000
"""A mirror looks for orders every second."""
SILENT_BEATS = 10
UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def configure(actions: "Actions") -> None:
    """Add the subcommands."""
    status = _parser(actions, "status", "show what a mirror copies, how far it is behind, what is paused", "status --json")
    status.add_argument("--json", action="store_true", help="print the status file's JSON object")
    pause = _parser(
        actions, "pause", "stop copying, until `resume`; also after a restart", "pause --topic clicks --reason 'disk full'"
    )
    pause.add_argument("--reason", default="", metavar="TEXT", help="shown in the status and by the audit")
    resume = _parser(actions, "resume", "copy again; without --topic all that is paused", "resume")
    throttle = _parser(actions, "throttle", "bound the bytes that are copied in a second", "throttle 20M --topic clicks")
    throttle.add_argument(
        "rate", metavar="BYTES_PER_S", help=f"at least {LEAST_BYTES_PER_S}; k, M, G are allowed; none: no bound"
    )
    for parser in (pause, resume, throttle):
        parser.add_argument(
            "--topic",
            action="append",
            default=[],
            metavar="NAME",
            help="only this topic of the source (repeatable; default: all)",
        )


def _parser(actions: "Actions", name: str, what: str, example: str) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}. Exit: 0 done, 1 the mirror does not run or does not answer, 2 wrong usage.",
        epilog=f"example: headrace mirror {example}",
    )
    parser.add_argument(
        "--status-file",
        type=Path,
        default=Layout.from_environment().run / "mirror.json",
        metavar="FILE",
        help="the mirror's, as given to `mirror run` (default: %(default)s)",
    )
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Carry out one of the four."""
    if arguments.action == "status":
        return _status(arguments.status_file, as_json=arguments.json)
    status = read_status(arguments.status_file)
    if status is not None:
        known = {one["topic"] for one in status.get("partitions", ())}
        for topic in arguments.topic:
            if known and topic not in known:
                raise unknown_topic(topic, "among those that the mirror copies", known, "`headrace mirror status` shows them.")
    path = orders_path(arguments.status_file)
    before = read_orders(path)
    match arguments.action:
        case "pause":
            pause = Pause(since_ms=SystemClock().now_ms(), by=_user(), reason=arguments.reason)
            orders = before.pausing(arguments.topic, pause)
        case "resume":
            orders = before.resuming(arguments.topic)
        case _:
            orders = before.throttling(arguments.topic, _rate(arguments.rate))
    write_orders(path, orders)
    if status is None:
        print(f"no mirror has written {arguments.status_file}: the order holds from its next start")
        return 0
    _await_taken(arguments.status_file, orders)
    print(_summary(orders))
    if arguments.action == "resume" and arguments.topic and ALL in orders.paused:
        print("the whole mirror is still paused: `headrace mirror resume` lifts every pause")
    return 0


def _await_taken(status_file: Path, orders: Orders) -> None:
    deadline = time.monotonic() + TAKEN_MS / 1000
    while time.monotonic() < deadline:
        status = read_status(status_file) or {}
        if (status.get("orders") or {}).get("number") == orders.number:
            return
        time.sleep(0.05)
    raise HeadraceError(
        f"the order is written, and the mirror has not taken it within {TAKEN_MS // 1000} s: does it run? `headrace mirror "
        "status` shows when it last wrote its status; the order holds from its next start"
    )


def _summary(orders: Orders) -> str:
    words = [f"{_who(topic)} {pause.words()}" for topic, pause in sorted(orders.paused.items())]
    words += [f"{_who(topic)} throttled to {rate:,} bytes/s" for topic, rate in sorted(orders.bytes_per_s.items())]
    return "\n".join(words) or "nothing is paused or throttled"


def _who(topic: str) -> str:
    return "the mirror is" if topic == ALL else f"{topic} is"


def _status(path: Path, *, as_json: bool) -> int:
    status = read_status(path)
    if status is None:
        raise HeadraceError(f"no mirror has written {path}: give its file with --status-file, or start it")
    age_ms = SystemClock().now_ms() - int(status.get("at_ms", 0))
    is_silent = age_ms > SILENT_BEATS * int(status.get("beat_every_ms", 1_000))
    is_well = status.get("state") == "ready" and not is_silent
    if as_json:
        print(json.dumps({**status, "age_ms": age_ms}, indent=2))
        return 0 if is_well else 1
    reason = f": {status['reason']}" if status.get("reason") else ""
    print(f"{status.get('state')}{reason} (mode {status.get('mode')}, pid {status.get('pid')})")
    if is_silent:
        print(f"it has written nothing for {age_ms // 1000} s: it hangs or does not run")
    orders = status.get("orders") or {}
    for topic, words in (orders.get("paused") or {}).items():
        print(f"{_who(topic)} {words}")
    for topic, rate in (orders.get("bytes_per_s") or {}).items():
        print(f"{_who(topic)} throttled to {rate:,} bytes/s")
    _table(status.get("partitions", []))
    return 0 if is_well else 1


def _table(partitions: list[dict[str, Any]]) -> None:
    if not partitions:
        return
    wide = max(len(f"{one['topic']}-{one['partition']}") for one in partitions)
    print(f"{'partition':<{wide}}  {'source end':>14}  {'copied to':>14}  {'behind':>14}  state")
    for one in partitions:
        name = f"{one['topic']}-{one['partition']}"
        why = one.get("held") or one.get("trouble")
        state = one["state"] + (f": {why}" if why else "")
        print(f"{name:<{wide}}  {one['source_end']:>14,}  {one['destination_end']:>14,}  {one['lag_bytes']:>14,}  {state}")


def _rate(words: str) -> int | None:
    """Return bytes a second; None for `none`. Raises UsageError."""
    if words.lower() == "none":
        return None
    digits, unit = (words[:-1], words[-1].lower()) if words[-1:].isalpha() else (words, "")
    try:
        rate = int(float(digits) * UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise UsageError(f"{words!r} is not a number of bytes a second: give 500000, 20M or none") from None
    if rate < LEAST_BYTES_PER_S:
        raise UsageError(f"{words}: at least {LEAST_BYTES_PER_S} bytes a second; `headrace mirror pause` stops the copying")
    return rate


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
