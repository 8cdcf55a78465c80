"""`headrace mirror run`: copy every topic of one cluster to another, in the foreground, until SIGTERM."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..client.security import chosen
from ..mirror.errors import InvalidPattern
from ..mirror.process import Mirror, MirrorSettings
from ..mirror.stall import STALL_AFTER_MS
from ..mirror.syncing.sync import SyncSettings
from ..mirror.topics.naming import patterns
from ..runtime.collector import freeze_live_objects
from ..runtime.layout import Layout
from ..runtime.lifecycle import StopSignal
from ..runtime.logs import configure as configure_logs
from .errors import UsageError
from .foreground import add_pages, pages_of
from .mirror_names import add_clients, add_naming, add_topics, naming_of

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

EXAMPLE = "headrace mirror run --source live:9092 --destination offline:9192 --destination-zookeeper offline:2182"


def configure(actions: "Actions") -> None:
    """Add the subcommand."""
    layout = Layout.from_environment()
    run = actions.add_parser(
        "run",
        help="copy in the foreground until SIGTERM",
        description="Copy topics of one cluster to another, exactly once, counted on the way.\n"
        "Internal topics (_…, ….quarantine) stay where they are.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: {EXAMPLE}",
    )
    run.add_argument("--status-file", type=Path, help="file in which the process writes its state as JSON")
    add_pages(run)
    run.add_argument("--source", default=layout.live_bootstrap, metavar="HOST:PORT", help="copy from here (default: %(default)s)")
    run.add_argument(
        "--destination", default=layout.offline_bootstrap, metavar="HOST:PORT", help="copy to here (default: %(default)s)"
    )
    run.add_argument(
        "--destination-zookeeper",
        default=layout.offline_zookeeper,
        metavar="HOST:PORT[/CHROOT]",
        help="the destination's, between Headrace brokers; stores how far the mirror has reported (default: %(default)s)",
    )
    run.add_argument(
        "--name",
        default="mirror",
        help="of its ledger and transactional id, with Apache Kafka at either end; one for each mirror (default: %(default)s)",
    )
    add_topics(run)
    add_naming(run)
    run.add_argument(
        "--no-schemas",
        action="store_true",
        help="do not copy the schema registry's topic; by default no data is appended before the schemas it was written with",
    )
    run.add_argument(
        "--replication-factor",
        type=int,
        default=-1,
        metavar="N",
        help="of topics that are made in Apache Kafka (default: as that cluster is set)",
    )
    run.add_argument(
        "--allow-retention",
        action="store_true",
        help="copy to topics of Apache Kafka that delete by event time (else they are refused: old events would be gone at once)",
    )
    run.add_argument(
        "--transaction-timeout-ms",
        type=int,
        default=60_000,
        metavar="MS",
        help="Apache Kafka ends a transaction of a dead mirror after this long (default: %(default)s)",
    )
    _add_sync(run)
    add_clients(run)
    run.add_argument("--audit-bootstrap", metavar="HOST:PORT", help="cluster that holds the audit's topic (default: the source)")
    run.add_argument(
        "--stall-after-ms",
        type=int,
        default=STALL_AFTER_MS,
        metavar="MS",
        help="report a stalled mirror when a partition is behind and has not moved for this long (default: %(default)s)",
    )


def _add_sync(run: argparse.ArgumentParser) -> None:
    defaults = SyncSettings()
    run.add_argument(
        "--sync-topic-configs", action="store_true", help="copy topics' own settings, too: those that the destination knows"
    )
    run.add_argument(
        "--config-properties-exclude",
        default=defaults.config_exclude,
        metavar="PATTERN[,...]",
        help="but none of these settings (default: MirrorMaker's)",
    )
    run.add_argument(
        "--sync-group-offsets",
        action="store_true",
        help="copy committed offsets of consumer groups that have no members at the destination, translated",
    )
    run.add_argument("--groups", default=defaults.groups, metavar="PATTERN[,...]", help="of these groups (default: all)")
    run.add_argument(
        "--groups-exclude",
        default=defaults.groups_exclude,
        metavar="PATTERN[,...]",
        help="but none of these (default: MirrorMaker's, and headrace.…)",
    )
    for name, every_ms in (
        ("topic-configs", defaults.topic_configs_every_ms),
        ("group-offsets", defaults.group_offsets_every_ms),
    ):
        run.add_argument(
            f"--sync-{name}-interval-seconds", type=int, default=every_ms // 1000, metavar="S", help="(default: %(default)s)"
        )


def _sync_of(arguments: argparse.Namespace) -> SyncSettings:
    settings = SyncSettings(
        topic_configs=arguments.sync_topic_configs,
        config_exclude=arguments.config_properties_exclude,
        topic_configs_every_ms=max(1, arguments.sync_topic_configs_interval_seconds) * 1000,
        group_offsets=arguments.sync_group_offsets,
        groups=arguments.groups,
        groups_exclude=arguments.groups_exclude,
        group_offsets_every_ms=max(1, arguments.sync_group_offsets_interval_seconds) * 1000,
    )
    try:
        for words in (settings.config_exclude, settings.groups, settings.groups_exclude):
            patterns(words)
    except InvalidPattern as error:
        raise UsageError(str(error)) from error
    return settings


def run(arguments: argparse.Namespace) -> int:
    """Copy until SIGTERM."""
    for bootstrap, file in ((arguments.source, arguments.from_config), (arguments.destination, arguments.to_config)):
        if file is not None:
            chosen.give(bootstrap, file)
    settings = MirrorSettings(
        source=arguments.source,
        destination=arguments.destination,
        destination_zookeeper=arguments.destination_zookeeper,
        audit_bootstrap=arguments.audit_bootstrap or arguments.source,
        name=arguments.name,
        naming=naming_of(arguments),
        mirrors_schemas=not arguments.no_schemas,
        sync=_sync_of(arguments),
        replication_factor=arguments.replication_factor,
        allows_retention=arguments.allow_retention,
        transaction_timeout_ms=arguments.transaction_timeout_ms,
        status_file=arguments.status_file,
        pages=pages_of(arguments),
        stall_after_ms=arguments.stall_after_ms,
    )
    configure_logs("mirror")
    stop = StopSignal().install()
    freeze_live_objects()
    Mirror(settings).run(stop)
    return 0
