"""`headrace mirror run`: copy every topic of one cluster to another, in the foreground, until SIGTERM."""

import argparse
from pathlib import Path

from ..client.security import chosen
from ..mirror.process import Mirror, MirrorSettings
from ..mirror.stall import STALL_AFTER_MS
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from .foreground import run_parser

HELP = "Copy every topic of one cluster to another: same batches, same offsets, counted on the way."


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    run = run_parser(
        parser,
        what=f"{HELP} Internal topics (_…, ….quarantine) stay where they are.",
        example="headrace mirror run --source live:9092 --destination offline:9192 --destination-zookeeper offline:2182",
    )
    run.add_argument("--source", default=layout.live_bootstrap, metavar="HOST:PORT", help="copy from here (default: %(default)s)")
    run.add_argument(
        "--destination", default=layout.offline_bootstrap, metavar="HOST:PORT", help="copy to here (default: %(default)s)"
    )
    run.add_argument(
        "--destination-zookeeper",
        default=layout.offline_zookeeper,
        metavar="HOST:PORT[/CHROOT]",
        help="the destination's; stores how far the mirror has reported (default: %(default)s)",
    )
    run.add_argument("--from-config", type=Path, metavar="FILE", help="client configuration (TLS, SASL) of the source")
    run.add_argument("--to-config", type=Path, metavar="FILE", help="client configuration (TLS, SASL) of the destination")
    run.add_argument("--audit-bootstrap", metavar="HOST:PORT", help="cluster that holds the audit's topic (default: the source)")
    run.add_argument(
        "--stall-after-ms",
        type=int,
        default=STALL_AFTER_MS,
        metavar="MS",
        help="report a stalled mirror when a partition is behind and has not moved for this long (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    for bootstrap, file in ((arguments.source, arguments.from_config), (arguments.destination, arguments.to_config)):
        if file is not None:
            chosen.give(bootstrap, file)
    settings = MirrorSettings(
        source=arguments.source,
        destination=arguments.destination,
        destination_zookeeper=arguments.destination_zookeeper,
        audit_bootstrap=arguments.audit_bootstrap or arguments.source,
        status_file=arguments.status_file,
        stall_after_ms=arguments.stall_after_ms,
    )
    configure_logs("mirror")
    stop = StopSignal().install()
    Mirror(settings).run(stop)
    return 0
