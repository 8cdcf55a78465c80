"""`headrace cluster status|elect`: a cluster's brokers, its partitions that need attention, and who leads them."""

import argparse
import json
import sys
from datetime import UTC, datetime

from ..client.cluster_status import ClusterStatus, Kind, Problem, cluster_status, damage_remedy, topics_to_ask
from ..client.connection.cluster import Cluster
from ..client.damage import BrokerDamage, damage
from ..client.errors import ClientError
from ..client.topic_admin import ClusterDescription, describe_cluster, elect_preferred_leaders, settings_of_topics
from .chosen_cluster import action, connected, options

HELP = """Show the brokers of a cluster, and the partitions that need attention; let the preferred brokers lead again. For this
platform's clusters, and any Kafka-wire cluster.

exit codes: 0 all is well, 1 something is wrong or the cluster cannot be reached

example: headrace cluster status --json"""

MOST_LINES = 50
"""Partitions of one kind that are listed; --json has all."""
WORDS = {
    Kind.NO_LEADER: "no leader: no record is taken or given",
    Kind.UNDER_MIN_INSYNC: "fewer replicas in sync than min.insync.replicas: acks=all is not acknowledged",
    Kind.UNDER_REPLICATED: "not all replicas in sync",
    Kind.LED_ELSEWHERE: "led by another broker than the preferred one",
}
MIN_INSYNC = "min.insync.replicas"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="status|elect")
    common = options()
    action(
        actions,
        common,
        "elect",
        "let the preferred broker of each partition lead it again",
        "After a broker was away, others lead its partitions. No record is lost; clients find the new leader by themselves.",
        example="headrace cluster elect",
    )
    action(
        actions,
        common,
        "status",
        "show brokers, and partitions that need attention",
        "Exit 1 if something is wrong. A partition that another broker leads than the preferred one is shown and is no fault.",
        example="headrace cluster status --bootstrap 127.0.0.1:9092",
    )


def run(arguments: argparse.Namespace) -> int:
    return _elect(arguments) if arguments.action == "elect" else _status(arguments)


def _elect(arguments: argparse.Namespace) -> int:
    cluster = connected(arguments, "cluster")
    try:
        outcomes = elect_preferred_leaders(cluster)
    finally:
        cluster.close()
    faults = {partition: error for partition, error in sorted(outcomes.items()) if error is not None}
    if arguments.json:
        rows = [
            {"topic": topic, "partition": index, "error": None if error is None else str(error)}
            for (topic, index), error in sorted(outcomes.items())
        ]
        print(json.dumps(rows))
    else:
        print(f"{len(outcomes) - len(faults)} partitions are led by their preferred broker again")
        for error in faults.values():
            print(f"headrace cluster: {error}", file=sys.stderr)
    return 1 if faults else 0


def _status(arguments: argparse.Namespace) -> int:
    cluster = connected(arguments, "cluster")
    try:
        described = describe_cluster(cluster)
        damaged, unanswered = damage(cluster, repaired_since_ms=0)
        status = cluster_status(described, _min_insync(cluster, topics_to_ask(described)), damaged)
    finally:
        cluster.close()
    for error in unanswered:
        print(f"headrace cluster: damage is not known: {error}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(_as_json(described, status)))
    else:
        _show(described, status)
    return 0 if status.is_well else 1


def _min_insync(cluster: Cluster, topics: list[str]) -> dict[str, int]:
    found = {}
    for topic, settings in settings_of_topics(cluster, topics).items():
        if isinstance(settings, ClientError):
            continue  # deleted meanwhile
        for one in settings:
            if one.name == MIN_INSYNC and one.value is not None:
                found[topic] = int(one.value)
    return found


def _show(described: ClusterDescription, status: ClusterStatus) -> None:
    partitions = sum(len(topic.partitions) for topic in described.topics)
    print(f"cluster {described.cluster_id}: {len(described.topics)} topics, {partitions} partitions")
    for broker_id, address in described.brokers.items():
        leads = sum(one.leader == broker_id for topic in described.topics for one in topic.partitions)
        keeps = sum(broker_id in one.replicas for topic in described.topics for one in topic.partitions)
        print(f"broker {broker_id}  {address}  leads {leads}, keeps {keeps}")
    for broker_id, count in status.missing_brokers.items():
        print(f"broker {broker_id}  IS NOT THERE  keeps {count}")
    for kind in Kind:
        _show_kind(kind, [one for one in status.problems if one.kind is kind])
    _show_damaged(described, status.damaged)
    _show_repaired(status.repaired)
    if status.is_well:
        print("all is well")
    for broker_id in status.missing_brokers:
        print(f"headrace cluster: broker {broker_id} is not there: start it", file=sys.stderr)


def _show_kind(kind: Kind, problems: list[Problem]) -> None:
    if not problems:
        return
    print(f"\n{len(problems)} {'partition' if len(problems) == 1 else 'partitions'}: {WORDS[kind]}")
    for one in problems[:MOST_LINES]:
        place = one.place
        leader = "none" if place.leader < 0 else place.leader
        sets = f"replicas {_ids(place.replicas)}, in sync {_ids(place.in_sync_replicas)}"
        print(f"  {one.topic}-{place.partition}: leader {leader}, {sets}: {one.remedy}")
    if len(problems) > MOST_LINES:
        print(f"  and {len(problems) - MOST_LINES} more: --json lists them")


def _show_damaged(described: ClusterDescription, damaged: tuple[BrokerDamage, ...]) -> None:
    if not damaged:
        return
    counts = _replica_counts(described)
    print(f"\n{len(damaged)} damaged {'range' if len(damaged) == 1 else 'ranges'} of logs")
    for one in damaged[:MOST_LINES]:
        row = one.row
        remedy = damage_remedy(one, counts.get((row.topic, row.partition), 1))
        place = f"{row.topic}-{row.partition} on broker {one.broker_id}, offsets {row.from_offset} to {row.to_offset}"
        print(f"  {place}, since {_time(row.at_ms)}: {row.reason}: {remedy}")
    if len(damaged) > MOST_LINES:
        print(f"  and {len(damaged) - MOST_LINES} more: --json lists them")


def _show_repaired(repaired: tuple[BrokerDamage, ...]) -> None:
    for broker_id in sorted({one.broker_id for one in repaired}):
        mine = [one.row for one in repaired if one.broker_id == broker_id]
        count, records, last = len(mine), sum(row.records for row in mine), max(row.at_ms for row in mine)
        print(
            f"broker {broker_id} repaired {count} damaged ranges ({records} records), the last at {_time(last)}: look at its disk"
        )


def _replica_counts(described: ClusterDescription) -> dict[tuple[str, int], int]:
    return {(topic.name, one.partition): len(one.replicas) for topic in described.topics for one in topic.partitions}


def _time(at_ms: int) -> str:
    return "the start or later" if at_ms <= 0 else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _ids(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids)) or "none"


def _as_json(described: ClusterDescription, status: ClusterStatus) -> dict[str, object]:
    counts = _replica_counts(described)
    return {
        "cluster_id": described.cluster_id,
        "is_well": status.is_well,
        "brokers": [{"broker_id": one, "address": address} for one, address in described.brokers.items()],
        "missing_brokers": [{"broker_id": one, "replicas": count} for one, count in status.missing_brokers.items()],
        "problems": [
            {
                "kind": one.kind.value,
                "is_fault": one.kind.is_fault,
                "topic": one.topic,
                "partition": one.place.partition,
                "leader": one.place.leader if one.place.leader >= 0 else None,
                "replicas": list(one.place.replicas),
                "in_sync_replicas": list(one.place.in_sync_replicas),
                "min_insync_replicas": one.min_insync_replicas,
                "remedy": one.remedy,
            }
            for one in status.problems
        ],
        "damaged": [
            {
                "kind": one.row.kind.name.lower(),
                "topic": one.row.topic,
                "partition": one.row.partition,
                "broker_id": one.broker_id,
                "from_offset": one.row.from_offset,
                "to_offset": one.row.to_offset,
                "since_ms": one.row.at_ms or None,
                "reason": one.row.reason,
                "remedy": damage_remedy(one, counts.get((one.row.topic, one.row.partition), 1)),
            }
            for one in status.damaged
        ],
        "repaired": [
            {
                "topic": one.row.topic,
                "partition": one.row.partition,
                "broker_id": one.broker_id,
                "from_offset": one.row.from_offset,
                "to_offset": one.row.to_offset,
                "records": one.row.records,
                "at_ms": one.row.at_ms,
            }
            for one in status.repaired
        ],
    }
