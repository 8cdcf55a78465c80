"""List, describe, delete and configure topics. `admin.create_topic` creates one. Works on any Kafka-wire cluster: it speaks
versions that our broker and Kafka 2.3 to 4.x serve.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..runtime.backoff import Backoff
from ..wire.errors import ErrorCode, WireError
from ..wire.messages import control
from .connection.cluster import Cluster
from .connection.connection import Connection
from .errors import BadAnswer, ClientError, RequestTimedOut, UnknownTopic, broker_error

METADATA, DELETE_TOPICS, DESCRIBE_CONFIGS, CREATE_PARTITIONS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS = 3, 20, 32, 37, 43, 44
_VERSIONS = {
    METADATA: (4, 7),
    DELETE_TOPICS: (1, 5),
    DESCRIBE_CONFIGS: (1, 1),
    CREATE_PARTITIONS: (0, 1),
    ELECT_LEADERS: (1, 2),
    INCREMENTAL_ALTER_CONFIGS: (0, 0),
}
"""API key → the lowest and the highest version spoken; a higher version of DeleteTopics returns the reason as text."""

MOST_DESCRIBED = 250
"""Topics of one DescribeConfigs request. Each has some twenty settings."""
_TOPIC = 2
_SET, _DELETE = 0, 1
_SOURCES = {1: "topic", 2: "broker", 3: "broker", 4: "broker", 5: "default"}
"""DescribeConfigs' numbers for the source of a value; whether a broker's value is dynamic makes no difference here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlace:
    """The brokers of one partition, by id; `leader` is -1 if there is none now."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    """The preferred leader first."""
    in_sync_replicas: tuple[int, ...]
    leader_epoch: int = -1
    """-1 if the cluster does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic in its cluster's metadata."""

    name: str
    partitions: tuple[PartitionPlace, ...]

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the partition that has the fewest."""
        return min((len(one.replicas) for one in self.partitions), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A cluster's brokers and topics."""

    cluster_id: str | None
    brokers: Mapping[int, str]
    """The live brokers: host and port, by id."""
    topics: tuple[TopicDescription, ...]
    """Sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettingInForce:
    """One setting of a topic."""

    name: str
    value: str | None
    """None if the cluster keeps the value secret."""
    source: str
    """`topic` (its own), `broker` or `default`."""


def describe_topics(cluster: Cluster, names: Iterable[str] | None = None) -> list[TopicDescription]:
    """Return these topics (None: all), sorted by name. Raises `UnknownTopic`, the broker's refusal, `BrokerUnreachable`."""
    wanted = None if names is None else [{"name": name} for name in names]
    answer = _ask(cluster.controller(), METADATA, {"topics": wanted, "allow_auto_topic_creation": False})
    for topic in answer.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(topic.name, cluster.bootstrap)
        if topic.error_code and names is not None:
            raise broker_error(f"topic {topic.name!r} on {cluster.bootstrap}", int(topic.error_code))
    return _described(answer)


def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """Return the cluster as the broker that is asked sees it. Raises the broker's refusal, `BrokerUnreachable`."""
    answer = _ask(cluster.controller(), METADATA, {"topics": None, "allow_auto_topic_creation": False})
    brokers = {int(one.node_id): f"{one.host}:{one.port}" for one in answer.brokers}
    return ClusterDescription(
        cluster_id=answer.cluster_id, brokers=dict(sorted(brokers.items())), topics=tuple(_described(answer))
    )


def _described(answer: Any) -> list[TopicDescription]:
    found = []
    for topic in answer.topics:
        partitions = (
            PartitionPlace(
                partition=one.partition_index,
                leader=one.leader_id,
                replicas=tuple(one.replica_nodes),
                in_sync_replicas=tuple(one.isr_nodes),
                leader_epoch=getattr(one, "leader_epoch", -1),
            )
            for one in topic.partitions
        )
        found.append(TopicDescription(name=topic.name, partitions=tuple(sorted(partitions, key=lambda one: one.partition))))
    return sorted(found, key=lambda one: one.name)


def elect_preferred_leaders(
    cluster: Cluster, partitions: Mapping[str, Collection[int]] | None = None, *, timeout_ms: int = 30_000
) -> dict[tuple[str, int], ClientError | None]:
    """Let the preferred replicas lead; None: of all partitions that another broker leads. Return None for each partition that
    they lead now, else why not. Raises the broker's refusal of the whole request.
    """
    controller = cluster.controller()
    wanted = None if partitions is None else [{"topic": one, "partitions": list(numbers)} for one, numbers in partitions.items()]
    message = {"election_type": 0, "topic_partitions": wanted, "timeout_ms": timeout_ms}
    answer = _ask(controller, ELECT_LEADERS, message, timeout_ms=2 * timeout_ms)
    if answer.error_code:
        raise broker_error(f"ElectLeaders on {controller.address}", int(answer.error_code))
    outcomes: dict[tuple[str, int], ClientError | None] = {}
    for topic in answer.replica_election_results:
        for one in topic.partition_result:
            what = f"the election of {topic.topic}-{one.partition_id}"
            is_led = one.error_code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
            error = None if is_led else broker_error(what, int(one.error_code), one.error_message)
            outcomes[str(topic.topic), int(one.partition_id)] = error
        cluster.forget(str(topic.topic))
    return outcomes


def delete_topic(cluster: Cluster, topic: str, *, timeout_ms: int = 30_000) -> None:
    """Return once the cluster no longer lists the topic; its data is deleted permanently. Raises `UnknownTopic`, the broker's
    refusal.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    controller = cluster.controller()
    answer = _ask(controller, DELETE_TOPICS, {"topic_names": [topic], "timeout_ms": timeout_ms}, timeout_ms=2 * timeout_ms)
    what = f"DeleteTopics of {topic!r} on {controller.address}"
    for one in answer.responses:
        if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(topic, cluster.bootstrap)
        if one.error_code:
            raise broker_error(what, int(one.error_code), getattr(one, "error_message", None))
    backoff = Backoff()
    attempt = 0
    # Kafka responds when the deletion is decided; its brokers learn of it a moment later.
    while topic in cluster.topics():
        if time.monotonic() >= deadline:
            raise RequestTimedOut(
                controller.address, f"DeleteTopics of {topic!r}", f"still listed after {timeout_ms} ms", was_sent=True
            )
        time.sleep(backoff.wait_ms(attempt) / 1000)
        attempt += 1
    cluster.forget(topic)


def add_partitions(cluster: Cluster, topic: str, partition_count: int, *, timeout_ms: int = 30_000) -> None:
    """Let the topic have this many partitions, placed by the cluster. Raises the broker's refusal."""
    controller = cluster.controller()
    wanted = {"name": topic, "count": partition_count, "assignments": None}
    message = {"topics": [wanted], "timeout_ms": timeout_ms, "validate_only": False}
    (result,) = _ask(controller, CREATE_PARTITIONS, message, timeout_ms=2 * timeout_ms).results
    _check(result, "CreatePartitions", controller, cluster, topic)
    cluster.forget(topic)


def topic_settings(cluster: Cluster, topic: str) -> list[TopicSettingInForce]:
    """Return the topic's settings in force, by name. Raises `UnknownTopic`, the broker's refusal."""
    found = settings_of_topics(cluster, [topic])[topic]
    if isinstance(found, ClientError):
        raise found
    return found


def settings_of_topics(
    cluster: Cluster, topics: Collection[str], *, lane: str = "control"
) -> dict[str, list[TopicSettingInForce] | ClientError]:
    """Return the settings in force of each topic, by name, or why it has none. One request for each `MOST_DESCRIBED` topics.

    Raises ClientError if a request as a whole failed.
    """
    controller = cluster.controller(lane=lane)
    found: dict[str, list[TopicSettingInForce] | ClientError] = {}
    for some in _runs(topics):
        resources = [{"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": None} for topic in some]
        answer = _ask(controller, DESCRIBE_CONFIGS, {"resources": resources, "include_synonyms": False})
        for topic, result in zip(some, answer.results, strict=True):
            try:
                _check(result, "DescribeConfigs", controller, cluster, topic)
            except ClientError as error:
                found[topic] = error
                continue
            settings = (
                TopicSettingInForce(
                    name=one.name,
                    value=None if one.is_sensitive else one.value,
                    source=_SOURCES.get(int(one.config_source), "broker"),
                )
                for one in result.configs
            )
            found[topic] = sorted(settings, key=lambda one: one.name)
    return found


def _runs(topics: Collection[str]) -> Iterator[list[str]]:
    left = iter(topics)
    while some := list(islice(left, MOST_DESCRIBED)):
        yield some


def change_topic_settings(cluster: Cluster, topic: str, *, to_set: Mapping[str, str], to_unset: Iterable[str] = ()) -> None:
    """Set and unset these settings of the topic, all or none; others stay. Raises `UnknownTopic`, the broker's refusal."""
    controller = cluster.controller()
    changes = [{"name": name, "config_operation": _SET, "value": value} for name, value in to_set.items()]
    changes += [{"name": name, "config_operation": _DELETE, "value": None} for name in to_unset]
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configs": changes}
    answer = _ask(controller, INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False})
    (result,) = answer.responses
    _check(result, "IncrementalAlterConfigs", controller, cluster, topic)


def _check(result: Any, api: str, controller: Connection, cluster: Cluster, topic: str) -> None:
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(topic, cluster.bootstrap)
    if result.error_code:
        raise broker_error(f"{api} of {topic!r} on {controller.address}", int(result.error_code), result.error_message)


def _ask(connection: Connection, api_key: int, message: Mapping[str, Any], *, timeout_ms: int | None = None) -> Any:
    version = connection.version(api_key, *_VERSIONS[api_key])
    try:
        body = connection.request(api_key, version, control.encode_request(api_key, version, message), timeout_ms=timeout_ms)
        return control.decode_response(api_key, version, body)
    except WireError as error:
        raise BadAnswer(connection.address, f"API {api_key}", str(error)) from error


__all__ = [
    "ClusterDescription",
    "PartitionPlace",
    "TopicDescription",
    "TopicSettingInForce",
    "add_partitions",
    "change_topic_settings",
    "delete_topic",
    "describe_cluster",
    "describe_topics",
    "elect_preferred_leaders",
    "settings_of_topics",
    "topic_settings",
]
