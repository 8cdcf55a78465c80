"""`headrace audit producers|retire-producer`: lists producers that have not sealed, and retires one that never will."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from ..errors import HeadraceError
from ..runtime.layout import Layout
from .audit_topic import await_taken, login_name, sender

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

SILENT_S = 60


def configure(actions: "Actions") -> None:
    """Add the two subcommands."""
    layout = Layout.from_environment()
    producers = actions.add_parser(
        "producers",
        help="list the producers that have not sealed, the longest silent one first",
        description="List the runs of producers that have not sealed, or whose reports were lost.",
    )
    producers.add_argument("--json", action="store_true", help="a JSON array, one object a run")
    retire = actions.add_parser(
        "retire-producer",
        help="declare that a producer which died unsealed will not report again",
        description="Declare, with a name and a reason, that a producer which died unsealed will not report again. Windows that\n"
        "balance without its last report become ACCEPTED, never COMPLETE; they always name it, and who retired it.\n"
        "Events that it accepted and never sent are lost and counted nowhere. If it reports again, the retirement is void.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog='example: headrace audit retire-producer www1/shop/4f2a --reason "the host burned down"\n'
        'example: headrace audit retire-producer --application shop --silent-for 86400 --reason "scaled down on Friday"',
    )
    whom = retire.add_mutually_exclusive_group(required=True)
    whom.add_argument("instance", metavar="INSTANCE", nargs="?", help="as `headrace audit producers` and the reports name it")
    whom.add_argument("--application", metavar="NAME", help="every silent producer of this application (host/NAME/…)")
    whom.add_argument("--all", action="store_true", help="every silent producer")
    retire.add_argument("--reason", required=True, help="why it will never seal; shown with every window it leaves behind")
    retire.add_argument("--by", default=login_name(), help="who retires it (default: %(default)s)")
    retire.add_argument(
        "--silent-for",
        type=float,
        default=SILENT_S,
        metavar="SECONDS",
        help="refuse a producer that reported more recently; with --application or --all: leave it out (default %(default)s)",
    )
    retire.add_argument("--live", default=layout.live_bootstrap, help="bootstrap of the live cluster (default %(default)s)")
    for one in (producers, retire):
        one.add_argument("--url", default=layout.audit_url, help="the audit service (default %(default)s)")


def list_unsealed(arguments: argparse.Namespace) -> int:
    """Print the producers that have not sealed."""
    from ..audit.client import unsealed

    runs = unsealed(arguments.url)
    if arguments.json:
        print(json.dumps(runs))
        return 0
    for run in runs:
        lost = f", {run['lost_reports']} reports lost" if run["lost_reports"] else ""
        retired = f", retired by {run['retired']['by']}: {run['retired']['reason']}" if run["retired"] else ""
        topics = ", ".join(run["topics"]) or "no topic"
        print(f"{run['instance']}  {topics}  silent for {run['silent_ms'] // 1000} s{lost}{retired}")
    if not runs:
        print("Every producer known to the audit has sealed.")
    return 0


def retire_producer(arguments: argparse.Namespace) -> int:
    """Write the retirement to the audit topic and return once the service has read it."""
    from ..audit.client import unsealed
    from ..audit.publisher import retire

    due = _due(arguments)
    if not due:
        return 0
    with sender(arguments.live) as producer:
        for instance in dict.fromkeys(run["instance"] for run in due):
            epochs = [run["epoch"] for run in due if run["instance"] == instance]
            retire(producer, instance, epochs, by=arguments.by, reason=arguments.reason)
    keys = {(run["instance"], run["epoch"]) for run in due}

    def are_retired() -> bool | None:
        left = (run["retired"] is None and (run["instance"], run["epoch"]) in keys for run in unsealed(arguments.url))
        return None if any(left) else True

    await_taken("the retirement", are_retired)
    topics = sorted({topic for run in due for topic in run["topics"]})
    names = ", ".join(dict.fromkeys(run["instance"] for run in due))
    are = "is" if len({run["instance"] for run in due}) == 1 else "are"
    print(f"{names} {are} retired by {arguments.by}; see `headrace audit report` for {', '.join(topics) or 'its topics'}")
    return 0


def _due(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the runs to retire. Raises HeadraceError where none is meant, or one that is named may only be slow."""
    from ..audit.client import unsealed

    runs = unsealed(arguments.url)
    least_ms = arguments.silent_for * 1000
    if arguments.instance is None:
        mine = [run for run in runs if arguments.all or application_of(run["instance"]) == arguments.application]
        due = [run for run in mine if run["retired"] is None and run["silent_ms"] >= least_ms]
        if not due:
            whose = "" if arguments.all else f" of application {arguments.application!r}"
            print(f"no unsealed producer{whose} has been silent for {arguments.silent_for:g} s; {len(mine)} are unsealed")
        return due
    mine = [run for run in runs if run["instance"] == arguments.instance]
    if not mine:
        raise HeadraceError(
            f"no run of producer {arguments.instance!r} is unsealed: `headrace audit producers` lists those that are"
        )
    heard = [run for run in mine if run["silent_ms"] < least_ms]
    if heard:
        raise HeadraceError(
            f"producer {arguments.instance} reported {heard[0]['silent_ms'] / 1000:.1f} s ago, it may only be slow: end it first"
        )
    due = [run for run in mine if run["retired"] is None]
    if not due:
        print(f"{arguments.instance} was retired before, by {mine[0]['retired']['by']}: {mine[0]['retired']['reason']}")
    return due


def application_of(instance: str) -> str | None:
    """Return the application of host/application/…; None where the name has another form."""
    parts = instance.split("/")
    return parts[1] if len(parts) > 1 else None
