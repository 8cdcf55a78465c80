"""`headrace topic list|create|describe|delete|config`: the topics of any Kafka-wire cluster."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..client import topic_admin
from ..client.admin import create_topic
from ..client.connection.cluster import Cluster
from ..client.errors import BrokerError, ClientError, UnknownTopic
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ..client.topic_admin import TopicDescription
from ..runtime.layout import is_internal
from ..wire.errors import ErrorCode
from ..wire.topic_name import fault_of
from .chosen_cluster import action, connected, options
from .errors import UsageError
from .topic_names import unknown_topic

HELP = """List, create, describe, configure and delete the topics of a cluster: this platform's, or any Kafka-wire cluster.

exit codes: 0 done, 1 the cluster could not do it, 2 asked wrongly (no such topic, a name or a setting that cannot be)

example: headrace topic create clicks --partitions 8 --config retention.ms=604800000"""

USAGE_ERRORS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "letters, digits, '.', '_' and '-' make a name, at most 249",
    ErrorCode.INVALID_PARTITIONS: "give another number with --partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "a partition has at most as many replicas as the cluster has brokers",
    ErrorCode.INVALID_CONFIG: "`headrace topic config NAME` of any topic shows the settings there are",
    ErrorCode.INVALID_REQUEST: "see `headrace topic --help`",
    ErrorCode.POLICY_VIOLATION: "the cluster's own policy forbids it",
}
"""Refusals by the broker that are due to the arguments, each with advice."""


def configure(parser: argparse.ArgumentParser) -> None:
    common = options()
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|create|describe|delete|config")

    listing = action(actions, common, "list", "list the topics", example="headrace topic list --cluster offline --json")
    listing.add_argument("--exclude-internal", action="store_true", help="leave out the platform's own: _… and ….quarantine")

    create = action(
        actions,
        common,
        "create",
        "create a topic",
        "Return when every partition of it has a leader.",
        example="headrace topic create clicks --partitions 8 --config retention.ms=604800000",
    )
    create.add_argument("name", metavar="NAME")
    create.add_argument("--partitions", type=_count, default=-1, metavar="N", help="(default: the cluster's own default)")
    create.add_argument("--replication-factor", type=_count, default=-1, metavar="N", help="(default: the cluster's own default)")
    create.add_argument("--config", type=_setting, action="append", default=[], metavar="K=V", help="a setting; may be repeated")
    create.add_argument("--if-not-exists", action="store_true", help="succeed if the topic exists already; it stays unchanged")

    describe = action(
        actions,
        common,
        "describe",
        "show partitions, replicas, offsets and own settings",
        example="headrace topic describe clicks",
    )
    describe.add_argument("name", metavar="NAME")

    delete = action(
        actions,
        common,
        "delete",
        "delete a topic with all its records",
        "The records are deleted permanently.\n"
        "Only this cluster's: the offline copy, the warehouse's table and the audit's counts stay, and continue from the\n"
        "offsets they know. So give a new topic another name: under this one it would not be mirrored.",
        example="headrace topic delete clicks",
    )
    delete.add_argument("name", metavar="NAME")
    delete.add_argument("--force", action="store_true", help="even one of the platform's own, such as the audit's topic")

    config = action(
        actions,
        common,
        "config",
        "show a topic's settings, or change them",
        "Without --set and --unset: show every setting in force. Settings that are not named stay as they are.",
        example="headrace topic config clicks --set retention.ms=86400000 --unset segment.bytes",
    )
    config.add_argument("name", metavar="NAME")
    config.add_argument("--set", type=_setting, action="append", default=[], metavar="K=V", help="may be repeated")
    config.add_argument("--unset", action="append", default=[], metavar="K", help="back to the default; may be repeated")


def run(arguments: argparse.Namespace) -> int:
    with _cluster(arguments) as cluster:
        return _ACTIONS[arguments.action](cluster, arguments)


@contextmanager
def _cluster(arguments: argparse.Namespace) -> Iterator[Cluster]:
    """Yield the chosen cluster. Refusals that are due to the arguments are raised as UsageError."""
    cluster = connected(arguments, "topic")
    try:
        yield cluster
    except UnknownTopic as error:
        advice = "`headrace topic list` shows those there are."
        raise unknown_topic(error.topic, f"on {cluster.bootstrap}", cluster.topics(), advice) from error
    except BrokerError as error:
        instead = USAGE_ERRORS.get(ErrorCode.of(error.code))
        if instead is None:
            raise
        raise UsageError(f"{error}; {instead}") from error
    finally:
        cluster.close()


def _list(cluster: Cluster, arguments: argparse.Namespace) -> int:
    found = [
        topic for topic in topic_admin.describe_topics(cluster) if not (arguments.exclude_internal and is_internal(topic.name))
    ]
    if arguments.json:
        rows = [
            {
                "name": topic.name,
                "partitions": len(topic.partitions),
                "replication_factor": topic.replication_factor,
                "is_internal": is_internal(topic.name),
            }
            for topic in found
        ]
        print(json.dumps(rows))
        return 0
    width = max([len("TOPIC"), *(len(topic.name) for topic in found)])
    print(f"{'TOPIC':<{width}}  PARTITIONS  REPLICAS")
    for topic in found:
        print(f"{topic.name:<{width}}  {len(topic.partitions):>10}  {topic.replication_factor:>8}")
    return 0


def _create(cluster: Cluster, arguments: argparse.Namespace) -> int:
    name: str = arguments.name
    if (fault := fault_of(name)) is not None:
        raise UsageError(f"{fault}: choose another name")
    is_new = create_topic(
        cluster, name, arguments.partitions, _once(arguments.config), replication_factor=arguments.replication_factor
    )
    if not is_new and not arguments.if_not_exists:
        raise ClientError(
            f"topic {name!r} exists on {cluster.bootstrap} and stays as it is: `headrace topic describe {name}` shows it, "
            f"`headrace topic config {name}` changes its settings, --if-not-exists takes it as it is"
        )
    (topic,) = topic_admin.describe_topics(cluster, [name])
    if arguments.json:
        words = {"is_new": is_new, "partitions": len(topic.partitions), "replication_factor": topic.replication_factor}
        print(json.dumps({"name": name, **words}))
    else:
        replicas = f"{topic.replication_factor} {'replica' if topic.replication_factor == 1 else 'replicas'} each"
        done = "is created" if is_new else "was there already, and stays as it is"
        print(f"{name} {done}: {_partitions(topic)}, {replicas}")
    return 0


def _describe(cluster: Cluster, arguments: argparse.Namespace) -> int:
    name: str = arguments.name
    (topic,) = topic_admin.describe_topics(cluster, [name])
    own = {one.name: one.value for one in topic_admin.topic_settings(cluster, name) if one.source == "topic"}
    led = [TopicPartition(name, one.partition) for one in topic.partitions if one.leader >= 0]
    starts = log_offsets(cluster, {partition: EARLIEST for partition in led})
    ends = log_offsets(cluster, {partition: LATEST for partition in led})
    rows: list[dict[str, Any]] = [
        {
            "partition": one.partition,
            "leader": one.leader if one.leader >= 0 else None,
            "replicas": list(one.replicas),
            "in_sync_replicas": list(one.in_sync_replicas),
            "log_start_offset": starts.get(TopicPartition(name, one.partition)),
            "log_end_offset": ends.get(TopicPartition(name, one.partition)),
        }
        for one in topic.partitions
    ]
    if arguments.json:
        words = {"replication_factor": topic.replication_factor, "config": own, "partitions": rows}
        print(json.dumps({"name": name, "is_internal": is_internal(name), **words}))
        return 0
    settings = ", ".join(f"{key}={value}" for key, value in own.items()) or "none of its own"
    print(f"{name}: {_partitions(topic)}, replication factor {topic.replication_factor}, settings: {settings}")
    print("PARTITION  LEADER  REPLICAS    IN SYNC     LOG START  LOG END")
    for row in rows:
        leader, start, end = (
            "none" if row[key] is None else row[key] for key in ("leader", "log_start_offset", "log_end_offset")
        )
        replicas, in_sync = (",".join(map(str, one)) for one in (row["replicas"], row["in_sync_replicas"]))
        print(f"{row['partition']:>9}  {leader:>6}  {replicas:<10}  {in_sync:<10}  {start:>9}  {end:>7}")
    return 0


def _delete(cluster: Cluster, arguments: argparse.Namespace) -> int:
    name: str = arguments.name
    if is_internal(name) and not arguments.force:
        raise UsageError(f"topic {name!r} is the platform's own: it is the only copy; --force deletes it anyway")
    topic_admin.delete_topic(cluster, name)
    print(json.dumps({"name": name, "is_deleted": True}) if arguments.json else f"{name} is deleted")
    if arguments.bootstrap is None and arguments.cluster == "live" and not is_internal(name):
        print(
            f"headrace topic: {name} stays offline, in the warehouse and in the audit's counts, which use its old offsets: "
            "give a new topic another name",
            file=sys.stderr,
        )
    return 0


def _config(cluster: Cluster, arguments: argparse.Namespace) -> int:
    name: str = arguments.name
    to_set = _once(arguments.set)
    both = sorted(to_set.keys() & set(arguments.unset))
    if both:
        raise UsageError(f"{', '.join(both)}: set and unset at once; give one of them")
    if to_set or arguments.unset:
        topic_admin.change_topic_settings(cluster, name, to_set=to_set, to_unset=dict.fromkeys(arguments.unset))
    found = topic_admin.topic_settings(cluster, name)
    if arguments.json:
        rows = [{"name": one.name, "value": one.value, "source": one.source} for one in found]
        print(json.dumps({"topic": name, "config": rows}))
        return 0
    named = to_set.keys() | set(arguments.unset)
    shown = [one for one in found if not named or one.name in named]
    width = max((len(one.name) for one in shown), default=0)
    for one in shown:
        print(f"{one.name:<{width}}  {'(secret)' if one.value is None else one.value}  ({one.source})")
    return 0


_ACTIONS: dict[str, Callable[[Cluster, Any], int]] = {
    "list": _list,
    "create": _create,
    "describe": _describe,
    "delete": _delete,
    "config": _config,
}


def _partitions(topic: TopicDescription) -> str:
    return f"{len(topic.partitions)} {'partition' if len(topic.partitions) == 1 else 'partitions'}"


def _once(settings: list[tuple[str, str]]) -> dict[str, str]:
    """Return the settings as a mapping. Raises UsageError if one is given twice."""
    names = [name for name, _ in settings]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)}: given more than once; give each setting one value")
    return dict(settings)


def _setting(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise argparse.ArgumentTypeError(f"{word!r} is not a setting: give NAME=VALUE, for example retention.ms=86400000")
    return name, value


def _count(word: str) -> int:
    if not word.isascii() or not word.isdigit() or not 0 < int(word[:10]) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number from 1 upwards")
    return int(word)
