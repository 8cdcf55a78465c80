"""Commands with several actions on one cluster: this platform's live or offline one, or any by its address."""

import argparse
from typing import TYPE_CHECKING

from ..runtime.layout import Layout

if TYPE_CHECKING:
    from ..client.connection.cluster import Cluster

    Actions = argparse._SubParsersAction[argparse.ArgumentParser]


def options() -> argparse.ArgumentParser:
    """Return the options that every action takes, for `parents`: which cluster, and whether to print JSON."""
    layout = Layout.from_environment()
    common = argparse.ArgumentParser(add_help=False)
    which = common.add_mutually_exclusive_group()
    which.add_argument(
        "--cluster",
        choices=("live", "offline"),
        default="live",
        help=f"this platform's live or offline cluster: {layout.live_bootstrap}, {layout.offline_bootstrap} (default: live)",
    )
    which.add_argument("--bootstrap", metavar="HOST:PORT[,…]", help="another cluster, by the addresses of some of its brokers")
    common.add_argument("--json", action="store_true", help="print JSON")
    return common


def action(
    actions: "Actions", common: argparse.ArgumentParser, name: str, what: str, more: str = "", *, example: str
) -> argparse.ArgumentParser:
    """Add one action; `what` it does, in a few words, begins its description."""
    return actions.add_parser(
        name,
        parents=[common],
        help=what,
        description=f"{what[0].upper()}{what[1:]}. {more}".strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: {example}",
    )


def connected(arguments: argparse.Namespace, command: str) -> "Cluster":
    """Return the cluster that was chosen; close it afterwards."""
    from ..client.connection.cluster import Cluster  # `headrace broker run` has these options and no client

    layout = Layout.from_environment()
    named = layout.live_bootstrap if arguments.cluster == "live" else layout.offline_bootstrap
    return Cluster(arguments.bootstrap or named, client_id=f"headrace-{command}")
