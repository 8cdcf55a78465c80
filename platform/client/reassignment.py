"""Moves partitions to other brokers (AlterPartitionReassignments), and lists the moves under way. For any Kafka-wire cluster."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..wire.errors import WireError
from ..wire.messages import control
from .connection.cluster import Cluster
from .errors import BadAnswer, ClientError, WrongReassignment, broker_error

ALTER, LIST = 45, 46
MOST_AT_ONCE = 500
"""Partitions of one request."""

Partition = tuple[str, int]
Brokers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One move under way. A change of order alone adds and removes nothing."""

    adding: Brokers
    removing: Brokers


def read_file(path: Path) -> dict[Partition, Brokers]:
    """Return what a file in Kafka's format asks for: {"version": 1, "partitions": [{"topic", "partition", "replicas"}]}.

    Raises WrongReassignment.
    """
    try:
        value = json.loads(path.read_text())
        if value["version"] != 1:
            raise ValueError(f"version {value['version']!r}, 1 is known")
        rows = [(str(row["topic"]), int(row["partition"]), tuple(map(int, row["replicas"]))) for row in value["partitions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WrongReassignment(str(path), repr(error)) from error
    wanted = {(topic, partition): brokers for topic, partition, brokers in rows}
    if len(wanted) < len(rows):
        raise WrongReassignment(str(path), "a partition is named twice")
    return wanted


def reassign(
    cluster: Cluster, wanted: Mapping[Partition, Brokers], *, timeout_ms: int = 30_000
) -> dict[Partition, ClientError | None]:
    """Ask for the moves. Return for each partition None when it is noted, else why it is refused."""
    outcomes: dict[Partition, ClientError | None] = {}
    rows = list(wanted.items())
    for at in range(0, len(rows), MOST_AT_ONCE):
        by_topic: dict[str, list[dict[str, object]]] = {}
        for (topic, partition), brokers in rows[at : at + MOST_AT_ONCE]:
            by_topic.setdefault(topic, []).append({"partition_index": partition, "replicas": list(brokers)})
        topics = [{"name": name, "partitions": partitions} for name, partitions in by_topic.items()]
        answer = _ask(cluster, ALTER, {"timeout_ms": timeout_ms, "topics": topics}, timeout_ms)
        for of_topic in answer.responses:
            for one in of_topic.partitions:
                what = f"the move of {of_topic.name}-{one.partition_index}"
                error = broker_error(what, int(one.error_code), one.error_message) if one.error_code else None
                outcomes[str(of_topic.name), int(one.partition_index)] = error
    return outcomes


def moving(cluster: Cluster, *, timeout_ms: int = 30_000) -> dict[Partition, Move]:
    """Return the partitions that are being moved."""
    answer = _ask(cluster, LIST, {"timeout_ms": timeout_ms, "topics": None}, timeout_ms)
    return {
        (str(of_topic.name), int(one.partition_index)): Move(tuple(one.adding_replicas), tuple(one.removing_replicas))
        for of_topic in answer.topics
        for one in of_topic.partitions
    }


def _ask(cluster: Cluster, api_key: int, message: Mapping[str, object], timeout_ms: int) -> Any:
    controller = cluster.controller()
    version = controller.version(api_key, 0, 0)
    try:
        encoded = control.encode_request(api_key, version, message)
        body = controller.request(api_key, version, encoded, timeout_ms=2 * timeout_ms)
        answer = control.decode_response(api_key, version, body)
    except WireError as error:
        raise BadAnswer(controller.address, f"API {api_key}", str(error)) from error
    if answer.error_code:
        raise broker_error(f"API {api_key} on {controller.address}", int(answer.error_code), answer.error_message)
    return answer
