"""`headrace audit producers|retire-producer`: lists producers that have not sealed, and retires one that never will."""

import argparse
import getpass
import json
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import HeadraceError
from ..runtime.layout import Layout

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

TAKEN_IN_MS = 30_000
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
        epilog='example: headrace audit retire-producer www1/shop/4f2a --reason "the host burned down"',
    )
    retire.add_argument("instance", metavar="INSTANCE", help="as `headrace audit producers` and the reports name it")
    retire.add_argument("--reason", required=True, help="why it will never seal; shown with every window it leaves behind")
    retire.add_argument("--by", default=_login_name(), help="who retires it (default: %(default)s)")
    retire.add_argument(
        "--silent-for",
        type=float,
        default=SILENT_S,
        metavar="SECONDS",
        help="refuse a producer that reported more recently (default %(default)s)",
    )
    retire.add_argument("--live", default=layout.live_bootstrap, help="bootstrap of the live cluster (default %(default)s)")
    for one in (producers, retire):
        one.add_argument("--url", default=layout.audit_url, help="the audit service (default %(default)s)")


def _login_name() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError, ImportError):
        return f"somebody@{socket.gethostname()}"


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
        print("Every producer that the audit has heard of has sealed.")
    return 0


def retire_producer(arguments: argparse.Namespace) -> int:
    """Write the retirement to the audit topic and return once the service has read it."""
    from ..audit.publisher import retire
    from ..client.connection.cluster import Cluster
    from ..client.errors import ClientError
    from ..client.producer.producer import Producer

    runs = _runs_of(arguments)
    if not runs:
        raise HeadraceError(
            f"no run of producer {arguments.instance!r} is unsealed: `headrace audit producers` lists those that are"
        )
    heard = [run for run in runs if run["silent_ms"] < arguments.silent_for * 1000]
    if heard:
        raise HeadraceError(
            f"producer {arguments.instance} was heard {heard[0]['silent_ms'] / 1000:.1f} s ago, it may only be slow: end it first"
        )
    due = [run for run in runs if run["retired"] is None]
    if not due:
        print(f"{arguments.instance} was retired before, by {runs[0]['retired']['by']}: {runs[0]['retired']['reason']}")
        return 0
    cluster = Cluster(arguments.live, client_id="headrace-audit-retire")
    producer = Producer(cluster)
    try:
        retire(producer, arguments.instance, [run["epoch"] for run in due], by=arguments.by, reason=arguments.reason)
    finally:
        with suppress(ClientError):  # if it did not arrive, an error was raised above
            producer.close(1_000)
        cluster.close()
    deadline = time.monotonic() + TAKEN_IN_MS / 1000
    while any(run["retired"] is None for run in _runs_of(arguments)):
        if time.monotonic() > deadline:
            raise HeadraceError(
                f"the retirement of {arguments.instance} is on the audit topic, but the audit service has not read it for "
                f"{TAKEN_IN_MS // 1000} s: see its log"
            )
        time.sleep(0.1)
    topics = sorted({topic for run in due for topic in run["topics"]})
    print(
        f"{arguments.instance} is retired by {arguments.by}; see `headrace audit report` for {', '.join(topics) or 'its topics'}"
    )
    return 0


def _runs_of(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    from ..audit.client import unsealed

    return [run for run in unsealed(arguments.url) if run["instance"] == arguments.instance]
