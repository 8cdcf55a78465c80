"""Create topics and check that each partition has a leader. Works on any Kafka-wire cluster."""

import time
from collections.abc import Collection, Mapping

from ..runtime.backoff import Backoff
from ..wire.errors import ErrorCode
from .connection import control_plane
from .connection.cluster import Cluster
from .connection.connection import Connection
from .errors import BadAnswer, ClientError, broker_error

CLUSTERS_OWN = -1
"""The number of partitions, or of replicas, that the cluster gives a topic. Our broker gives the platform's own topics three
replicas where three brokers are there.
"""


def create_topic(
    cluster: Cluster,
    topic: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    *,
    replication_factor: int = 1,
    timeout_ms: int = 30_000,
) -> bool:
    """Return True if this call created the topic, False if it existed. On return every partition has a leader.

    An existing topic is left unchanged, even if its partition count or configuration differs. Retriable failures are retried for
    `timeout_ms`; then the last one is raised. A permanent refusal (a bad name, an unknown configuration key) is raised at once.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    backoff = Backoff()
    attempt = 0
    is_new: bool | None = None
    while True:
        try:
            if is_new is None:
                is_new = _create(cluster, topic, partitions, config or {}, replication_factor, timeout_ms)
            _see_leaders(cluster, topic)
            return is_new
        except ClientError as error:
            cluster.forget(topic)
            if not error.retriable or time.monotonic() >= deadline:
                raise
        time.sleep(backoff.wait_ms(attempt) / 1000)
        attempt += 1


def create_topics(
    cluster: Cluster,
    topics: Mapping[str, tuple[int, Mapping[str, str]]],
    *,
    replication_factor: int = 1,
    timeout_ms: int = 30_000,
    lane: str = "control",
) -> dict[str, ClientError | None]:
    """Create these topics (name → partitions, configuration) in one request; return for each None, or why it is not there.

    Existing topics are left unchanged. Nothing is retried, and a partition may not have a leader yet. The caller bounds how many
    topics one request names. Raises ClientError if the request as a whole failed.
    """
    controller = cluster.controller(lane=lane)
    wanted = [(name, partitions, replication_factor, config) for name, (partitions, config) in topics.items()]
    answers = control_plane.ask_create_topics(controller, wanted, timeout_ms=timeout_ms)
    return {name: _outcome(controller, name, partitions, answers.get(name)) for name, (partitions, _) in topics.items()}


def await_leaders(cluster: Cluster, topics: Collection[str], *, timeout_ms: int = 30_000) -> dict[str, ClientError]:
    """Return once each partition of these topics has a leader; of those that have none in time, why."""
    deadline = time.monotonic() + timeout_ms / 1000
    backoff, attempt = Backoff(), 0
    missing: dict[str, ClientError] = {}
    left: Collection[str] = topics
    while left:
        missing = {}
        cluster.refresh(left)
        for topic in left:
            try:
                _see_leaders(cluster, topic)
            except ClientError as error:
                missing[topic] = error
        left = list(missing)
        if not left or time.monotonic() >= deadline:
            break
        time.sleep(backoff.wait_ms(attempt) / 1000)
        attempt += 1
    return missing


def _outcome(controller: Connection, topic: str, partitions: int, answer: tuple[int, str | None] | None) -> ClientError | None:
    if answer is None:
        return BadAnswer(controller.address, "CreateTopics", f"it leaves out {topic}")
    code, message = answer
    if not code or code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return None
    return broker_error(f"CreateTopics of {topic!r} with {partitions} partitions on {controller.address}", code, message)


def _create(
    cluster: Cluster, topic: str, partitions: int, config: Mapping[str, str], replication_factor: int, timeout_ms: int
) -> bool:
    controller = cluster.controller()
    answers = control_plane.ask_create_topics(
        controller, [(topic, partitions, replication_factor, config)], timeout_ms=timeout_ms
    )
    refused = _outcome(controller, topic, partitions, answers.get(topic))
    if refused is not None:
        raise refused
    return answers[topic][0] != ErrorCode.TOPIC_ALREADY_EXISTS


def _see_leaders(cluster: Cluster, topic: str) -> None:
    for partition in cluster.partitions(topic):
        cluster.leader(topic, partition)
