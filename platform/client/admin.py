"""Create a topic and check that each partition has a leader. Works on any Kafka-wire cluster."""

import time
from collections.abc import Mapping

from ..runtime.backoff import Backoff
from ..wire.errors import ErrorCode
from .connection import control_plane
from .connection.cluster import Cluster
from .errors import BadAnswer, ClientError, broker_error


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


def _create(
    cluster: Cluster, topic: str, partitions: int, config: Mapping[str, str], replication_factor: int, timeout_ms: int
) -> bool:
    controller = cluster.controller()
    answers = control_plane.ask_create_topics(
        controller, [(topic, partitions, replication_factor, config)], timeout_ms=timeout_ms
    )
    if topic not in answers:
        raise BadAnswer(controller.address, "CreateTopics", f"it leaves out {topic}")
    code, message = answers[topic]
    if code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return False
    if code:
        raise broker_error(f"CreateTopics of {topic!r} with {partitions} partitions on {controller.address}", code, message)
    return True


def _see_leaders(cluster: Cluster, topic: str) -> None:
    for partition in cluster.partitions(topic):
        cluster.leader(topic, partition)
