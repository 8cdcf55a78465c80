"""The requests of a client besides Produce and Fetch. Each is a plain function: values in, values out, one request.

Each API is spoken in one version: the lowest that carries all we need and that our broker and Kafka 1.0 to 4.x all serve. Holds
no state, does not retry and does not choose a broker.
"""

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ...wire.errors import WireError
from ...wire.messages import control
from ..errors import BadAnswer, broker_error
from .connection import Connection

LIST_OFFSETS = (2, 2)
METADATA = (3, 4)
FIND_COORDINATOR = (10, 1)
FIND_COORDINATORS = (10, 4)
"""Of many groups at once."""
DESCRIBE_GROUPS = (15, 1)
LIST_GROUPS = (16, 2)
WITH_TOPIC_IDS = (10, 12)
"""Versions of Metadata."""
CREATE_TOPICS = (19, 4)
INIT_PRODUCER_ID = (22, 1)
DESCRIBE_CONFIGS = (32, 1)
"""API key and version."""


_READ_COMMITTED = 1
_BROKER = 4
"""Kind of a resource with settings."""

_OF_A_PRODUCER = ((18, 0), METADATA, CREATE_TOPICS, INIT_PRODUCER_ID, DESCRIBE_CONFIGS)
"""With ApiVersions."""


def import_messages() -> None:
    """Import what a producer's requests are made of, which is done at their first use else. Call it before threads do.

    An import that another thread has begun when the process forks stays half done in the child, and its lock is held for ever.
    """
    codecs.lookup("idna")  # for `getaddrinfo`
    for api_key, version in _OF_A_PRODUCER:
        control.prepare(api_key, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic in the cluster's metadata: its error code, and each partition's leader (-1: none now)."""

    error_code: int
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """One Metadata response."""

    brokers: Mapping[int, tuple[str, int]]
    controller_id: int
    topics: Mapping[str, TopicFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Topics of a cluster at one moment. As long as nothing changes, a cluster's listing is the same object."""

    facts: ClusterFacts
    partitions: Mapping[str, tuple[int, ...]]
    """Topic → its partitions, sorted. Topics with an error or without partitions are left out."""
    ids: Mapping[str, str]
    """Topic → its id, as 32 hexadecimal digits; empty for a cluster without ids (Kafka before 2.8)."""
    answered: tuple[int, bytes]
    """Version and bytes of the answer."""


def ask_listing(connection: Connection, topics: Sequence[str] | None, before: Listing | None = None) -> Listing:
    """Return these topics (None: all). If the broker's answer is the same as that of `before`, return `before` undecoded."""
    version = connection.version(METADATA[0], METADATA[1], WITH_TOPIC_IDS[1])
    if METADATA[1] < version < WITH_TOPIC_IDS[0]:
        version = METADATA[1]
    named = None if topics is None else [{"name": topic} for topic in topics]
    message = _with_ids(topics) if version >= WITH_TOPIC_IDS[0] else {"topics": named, "allow_auto_topic_creation": False}
    body = bytes(connection.request(METADATA[0], version, control.encode_request(METADATA[0], version, message)))
    if before is not None and before.answered == (version, body):
        return before
    try:
        answer = control.decode_response(METADATA[0], version, body)
    except WireError as error:
        raise BadAnswer(connection.address, f"API {METADATA[0]}", str(error)) from error
    facts = _cluster_facts(answer)
    return Listing(
        facts=facts,
        partitions={
            name: tuple(sorted(topic.leaders)) for name, topic in facts.topics.items() if not topic.error_code and topic.leaders
        },
        ids=_ids(answer) if version >= WITH_TOPIC_IDS[0] else {},
        answered=(version, body),
    )


def ask_metadata(connection: Connection, topics: Iterable[str] | None, *, may_create: bool) -> ClusterFacts:
    """Return the broker's metadata of the cluster and of these topics (None: of all topics)."""
    named = None if topics is None else [{"name": topic} for topic in topics]
    return _cluster_facts(ask(connection, METADATA, {"topics": named, "allow_auto_topic_creation": may_create}))


def _cluster_facts(answer: Any) -> ClusterFacts:
    return ClusterFacts(
        brokers={broker.node_id: (broker.host, broker.port) for broker in answer.brokers},
        controller_id=answer.controller_id,
        topics={
            topic.name: TopicFacts(
                error_code=int(topic.error_code),
                leaders={partition.partition_index: partition.leader_id for partition in topic.partitions},
            )
            for topic in answer.topics
        },
    )


def ask_topic_ids(connection: Connection, topics: Sequence[str] | None = None) -> dict[str, str]:
    """Return the id of each of these topics (None: of all), as 32 hexadecimal digits.

    Raises `UnsupportedApi` for a broker without ids (Kafka before 2.8).
    """
    version = connection.version(METADATA[0], *WITH_TOPIC_IDS)
    return _ids(ask(connection, (METADATA[0], version), _with_ids(topics)))


def _with_ids(topics: Sequence[str] | None) -> dict[str, Any]:
    return {
        "topics": None if topics is None else [{"topic_id": UUID(int=0), "name": topic} for topic in topics],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def _ids(answer: Any) -> dict[str, str]:
    return {topic.name: topic.topic_id.hex for topic in answer.topics if not topic.error_code and topic.topic_id is not None}


def ask_offsets(connection: Connection, wanted: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (error code, offset) for each (topic, partition). `wanted` holds a timestamp in ms, or -1 (latest) or -2 (earliest).

    The offset is that of the first record at or after the timestamp, or -1 if there is none. The latest is where a reader of
    committed records finds the end: Kafka's last stable offset, our high watermark.
    """
    by_topic: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), timestamp in wanted.items():
        by_topic.setdefault(topic, []).append({"partition_index": partition, "timestamp": timestamp})
    topics = [{"name": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
    answer = ask(connection, LIST_OFFSETS, {"replica_id": -1, "isolation_level": _READ_COMMITTED, "topics": topics})
    return {
        (topic.name, partition.partition_index): (int(partition.error_code), int(partition.offset))
        for topic in answer.topics
        for partition in topic.partitions
    }


def ask_producer_id(connection: Connection) -> tuple[int, int]:
    """Return a new (producer id, epoch). Raises the broker's refusal."""
    answer = ask(connection, INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout_ms": 60_000})
    if answer.error_code:
        raise broker_error(f"InitProducerId to {connection.address}", int(answer.error_code))
    return int(answer.producer_id), int(answer.producer_epoch)


def ask_create_topics(
    connection: Connection, topics: Sequence[tuple[str, int, int, Mapping[str, str]]], *, timeout_ms: int
) -> dict[str, tuple[int, str | None]]:
    """Return (error code, the broker's message) for each topic. A topic is (name, partitions, replication factor, config)."""
    wanted = [
        {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": replicas,
            "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in config.items()],
        }
        for name, partitions, replicas, config in topics
    ]
    answer = ask(connection, CREATE_TOPICS, {"topics": wanted, "timeout_ms": timeout_ms, "validate_only": False})
    return {topic.name: (int(topic.error_code), topic.error_message) for topic in answer.topics}


def ask_broker_settings(connection: Connection, broker_id: int, names: Iterable[str]) -> dict[str, str]:
    """Return those of these settings that the broker knows and tells; it must be the one asked. Raises the broker's refusal."""
    wanted = {"resource_type": _BROKER, "resource_name": str(broker_id), "configuration_keys": list(names)}
    answer = ask(connection, DESCRIBE_CONFIGS, {"resources": [wanted], "include_synonyms": False})
    (result,) = answer.results
    if result.error_code:
        raise broker_error(f"DescribeConfigs of broker {broker_id} on {connection.address}", int(result.error_code))
    return {one.name: one.value for one in result.configs if one.value is not None}


def ask_coordinator(connection: Connection, key: str, *, of_transactions: bool = False) -> tuple[str, int]:
    """Return host and port of the broker that coordinates the group, or the transactional id. Raises the broker's refusal."""
    answer = ask(connection, FIND_COORDINATOR, {"key": key, "key_type": int(of_transactions)})
    if answer.error_code:
        what = "transactional id" if of_transactions else "group"
        raise broker_error(f"FindCoordinator of {what} {key!r} to {connection.address}", int(answer.error_code))
    return answer.host, answer.port


def ask_coordinators(connection: Connection, groups: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the same of many groups: in one request, if the broker serves that. Raises the broker's first refusal."""
    if connection.version(FIND_COORDINATOR[0], FIND_COORDINATOR[1], FIND_COORDINATORS[1]) < FIND_COORDINATORS[1]:
        return {group: ask_coordinator(connection, group) for group in groups}
    answer = ask(connection, FIND_COORDINATORS, {"coordinator_keys": list(groups), "key_type": 0})
    for one in answer.coordinators:
        if one.error_code:
            raise broker_error(f"FindCoordinator of group {one.key!r} to {connection.address}", int(one.error_code))
    return {one.key: (one.host, one.port) for one in answer.coordinators}


def ask_group_members(connection: Connection, group: str) -> tuple[str, list[str]]:
    """Return the group's protocol type and its members' client ids (none if it has no members). Raises the broker's refusal."""
    (answer,) = ask(connection, DESCRIBE_GROUPS, {"groups": [group]}).groups
    if answer.error_code:
        raise broker_error(f"DescribeGroups of {group!r} to {connection.address}", int(answer.error_code))
    return answer.protocol_data, [member.client_id for member in answer.members]


def ask_groups(connections: Iterable[Connection]) -> list[str]:
    """Return the consumer groups of a cluster, sorted: each of its brokers is asked. Raises the first refusal."""
    found: set[str] = set()
    for connection in connections:
        answer = ask(connection, LIST_GROUPS, {})
        if answer.error_code:
            raise broker_error(f"ListGroups to {connection.address}", int(answer.error_code))
        found |= {one.group_id for one in answer.groups}
    return sorted(found)


def ask(connection: Connection, api: tuple[int, int], message: Mapping[str, Any]) -> Any:
    """Return the broker's answer to a message of API key and version `api`. Raises ClientError, BadAnswer."""
    api_key, version = api
    connection.version(api_key, version, version)
    body = connection.request(api_key, version, control.encode_request(api_key, version, message))
    try:
        return control.decode_response(api_key, version, body)
    except WireError as error:
        raise BadAnswer(connection.address, f"API {api_key}", str(error)) from error
