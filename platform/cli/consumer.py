"""`headrace consumer run`: one process of the real-time requests-per-minute service, in the foreground, until SIGTERM."""

import argparse
import os
import socket
from pathlib import Path

from ..apps.request_rate.service import RequestRate
from ..audit.model.tiers import CONSUMER
from ..reader.loop_settings import LoopSettings
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from .foreground import add_pages, pages_of, run_parser

STALLED_AFTER_MS = 60_000
"""A broker's restart and a registry's are over by then; the mirror says so after the same time."""
HELP = "Run one process of the real-time requests-per-minute service; two or more form a group and take over from each other."


def configure(parser: argparse.ArgumentParser) -> None:
    layout = Layout.from_environment()
    run = run_parser(
        parser, what=HELP, example="headrace consumer run --topic access_log --group request-rate --consumer-id consumer-1"
    )
    add_pages(run)
    run.add_argument("--topic", default="access_log", help="topic to count; it need not exist yet (default: %(default)s)")
    run.add_argument("--group", default="request-rate", help="group whose members share the partitions (default: %(default)s)")
    run.add_argument("--consumer-id", help="this member's own name in the group (default: made from host and process id)")
    run.add_argument("--bootstrap", default=layout.live_bootstrap, metavar="HOST:PORT", help="(default: %(default)s)")
    run.add_argument(
        "--zookeeper",
        default=layout.live_zookeeper,
        metavar="HOST:PORT[/CHROOT]",
        help="where the group coordinates; '' for a cluster without ZooKeeper: by Kafka's group protocol (default: %(default)r)",
    )
    run.add_argument("--registry", default=layout.registry_url, metavar="URL", help="schema registry (default: %(default)s)")
    run.add_argument("--audit-bootstrap", metavar="HOST:PORT", help="cluster of the audit topic (default: that of --bootstrap)")
    run.add_argument("--home", type=Path, default=layout.home, help="folder of the state files (default: %(default)s)")
    run.add_argument("--cluster", default="live", help="the cluster's name in quarantine records (default: %(default)s)")
    run.add_argument(
        "--session-timeout-ms",
        type=int,
        default=6_000,
        help="time until the partitions of a killed member go to another one (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    consumer_id = arguments.consumer_id or f"{socket.gethostname()}-{os.getpid()}"
    settings = LoopSettings(
        topics=(arguments.topic,),
        group=arguments.group,
        tier=f"{CONSUMER}{arguments.group}",
        consumer_id=consumer_id,
        bootstrap=arguments.bootstrap,
        zookeeper=arguments.zookeeper or None,
        registry=arguments.registry,
        cluster=arguments.cluster,
        audit_bootstrap=arguments.audit_bootstrap or arguments.bootstrap,
        cache_folder=arguments.home / "schemas",
        status_file=arguments.status_file,
        most_records=1 << 62,  # it holds counts only
        most_bytes=1 << 62,
        session_timeout_ms=arguments.session_timeout_ms,
        stalled_after_ms=STALLED_AFTER_MS,
    )
    configure_logs(consumer_id)
    RequestRate(settings, arguments.home, pages_of(arguments)).run(StopSignal().install())
    return 0
