"""`headrace group list|describe|lag|reset`: consumer groups of any Kafka-wire cluster, also those that ZooKeeper coordinates."""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..client.cluster_kind import counts_records
from ..client.connection.cluster import Cluster
from ..client.groups import group_admin, record_steps
from ..client.groups.group_admin import Group, Lag, UnknownGroup
from ..client.groups.group_registry import BrokersGroups, GroupRegistry
from ..client.groups.reset_targets import targets
from ..client.groups.zookeeper_groups import NoRegistry, ZooKeeperGroups
from ..coordination.errors import InvalidName
from .chosen_cluster import action, connected, options
from .errors import UsageError
from .group_reset import add_options, chosen, export, scope

HELP = """List and describe consumer groups, show how far they are behind, and move their committed offsets.

Both kinds: groups of Kafka's own protocol, and those of the paper's consumers, which coordinate through ZooKeeper. Brokers of
this platform know both. Where the paper's consumers read from Apache Kafka, --zookeeper says where they coordinate.
On this platform's clusters offsets are positions in bytes, and so is LAG; --records counts records.

exit codes: 0 done, 1 the cluster could not do it, or the group has members, 2 asked wrongly

example: headrace group reset billing --topic clicks --to-datetime 2026-11-23T08:00:00 --execute"""


def configure(parser: argparse.ArgumentParser) -> None:
    common = options()
    common.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[,…][/CHROOT]",
        help="the paper's consumers' own registry, where the cluster's brokers do not know it (Apache Kafka)",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|describe|lag|reset")
    action(actions, common, "list", "list the groups", example="headrace group list --json")
    describe = action(actions, common, "describe", "show a group's members", example="headrace group describe billing")
    describe.add_argument("group", metavar="GROUP")
    lag = action(actions, common, "lag", "show how far a group is behind", example="headrace group lag billing --records")
    lag.add_argument("group", metavar="GROUP")
    lag.add_argument("--records", action="store_true", help="count records: reads all that the group has not read yet")
    reset = action(
        actions,
        common,
        "reset",
        "show where a group would begin, and with --execute move it there",
        example="headrace group reset billing --topic clicks:0,1 --shift-by -100",
    )
    reset.add_argument("group", metavar="GROUP")
    add_options(reset)


def run(arguments: argparse.Namespace) -> int:
    cluster = connected(arguments, "group")
    try:
        with _registry(cluster, arguments.zookeeper) as groups:
            return _ACTIONS[arguments.action](cluster, groups, arguments)
    except (UnknownGroup, NoRegistry, InvalidName) as error:
        raise UsageError(str(error)) from error
    finally:
        cluster.close()


@contextmanager
def _registry(cluster: Cluster, zookeeper: str | None) -> Iterator[GroupRegistry]:
    if zookeeper is None:
        yield BrokersGroups(cluster)
        return
    groups = ZooKeeperGroups(zookeeper)
    try:
        yield groups
    finally:
        groups.close()


def _list(_cluster: Cluster, groups: GroupRegistry, arguments: argparse.Namespace) -> int:
    found = groups.groups()
    if arguments.json:
        print(json.dumps([{"group": name, "kind": kind} for name, kind in found.items()]))
    else:
        _table(["GROUP", "KIND"], [[name, kind or "offsets only"] for name, kind in found.items()])
    return 0


def _describe(_cluster: Cluster, groups: GroupRegistry, arguments: argparse.Namespace) -> int:
    group = groups.describe(arguments.group)
    rows = [
        {
            "member": one.member_id,
            "client": one.client_id,
            "host": one.host,
            "partitions": None if one.partitions is None else [list(name) for name in sorted(one.partitions)],
        }
        for one in group.members
    ]
    if arguments.json:
        print(json.dumps({"group": group.name, "kind": group.kind, "state": group.state, "members": rows}))
        return 0
    count = len(rows)
    print(f"{group.name}: {group.kind or 'offsets only'}, {group.state}, {count} {'member' if count == 1 else 'members'}")
    if rows:
        words = [[str(row[key]) for key in ("member", "client", "host")] for row in rows]
        owned = ["?" if one.partitions is None else _spoken(one.partitions) for one in group.members]
        _table(["MEMBER", "CLIENT", "HOST", "PARTITIONS"], [[*row, mine] for row, mine in zip(words, owned, strict=True)])
    return 0


def _lag(cluster: Cluster, groups: GroupRegistry, arguments: argparse.Namespace) -> int:
    group = groups.describe(arguments.group)
    found = group_admin.lag_of(cluster, group)
    unit = "records" if counts_records(cluster) else "bytes"
    readers = _readers(group)
    rows: list[dict[str, Any]] = []
    for one in found:
        row: dict[str, Any] = {"topic": one.partition.topic, "partition": one.partition.partition}
        row |= {"committed": one.committed, "log_start": one.log_start, "log_end": one.log_end, f"lag_{unit}": one.lag}
        if arguments.records:
            row["lag_records"] = _records(cluster, one) if unit == "bytes" else one.lag
        rows.append({**row, "member": readers.get(one.partition)})
    if arguments.json:
        print(json.dumps({"group": group.name, "kind": group.kind, "partitions": rows}))
    elif rows:
        _table(
            [name.upper().replace("_", " ") for name in rows[0]],
            [["-" if value is None else str(value) for value in row.values()] for row in rows],
        )
    return 0


def _records(cluster: Cluster, one: Lag) -> int | None:
    if one.committed is None or one.log_end is None:
        return None
    return record_steps.count(cluster, one.partition, max(one.committed, one.log_start or 0), one.log_end)


def _reset(cluster: Cluster, groups: GroupRegistry, arguments: argparse.Namespace) -> int:
    reset = chosen(arguments)
    groups.check_without_members(arguments.group)
    try:
        committed = dict(groups.describe(arguments.group).committed)
    except UnknownGroup:
        if not arguments.topic and reset.each is None:
            raise
        committed = {}
    partitions = scope(cluster, arguments, committed, reset)
    new = targets(cluster, partitions, committed, reset)
    if arguments.execute:
        groups.move(arguments.group, new)
    if arguments.export:
        print(export(new), end="")
    elif arguments.json:
        rows = [
            {"topic": name.topic, "partition": name.partition, "committed": committed.get(name), "new": at}
            for name, at in sorted(new.items())
        ]
        print(json.dumps({"group": arguments.group, "is_executed": arguments.execute, "partitions": rows}))
    else:
        _table(
            ["TOPIC", "PARTITION", "COMMITTED", "NEW"],
            [[name.topic, str(name.partition), str(committed.get(name, "-")), str(at)] for name, at in sorted(new.items())],
        )
        print("moved" if arguments.execute else "nothing is moved: --execute does it")
    return 0


_ACTIONS: dict[str, Callable[[Cluster, GroupRegistry, Any], int]] = {
    "list": _list,
    "describe": _describe,
    "lag": _lag,
    "reset": _reset,
}


def _readers(group: Group) -> dict[Any, str]:
    return {name: one.member_id for one in group.members for name in one.partitions or ()}


def _spoken(partitions: Any) -> str:
    return " ".join(f"{name.topic}-{name.partition}" for name in sorted(partitions)) or "none"


def _table(titles: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for row in [titles, *rows]:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
