"""Making topics, and seeing that they are there. Works on any Kafka-wire cluster."""

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
    """Return whether the topic was made by this call (False: it existed already); then every partition of it has a leader.

    An existing topic is left as it is, whatever its partitions and config. Waits out passing failures for `timeout_ms`; raises
    the last of them, and at once what the broker refuses for good (a bad name, an unknown config).
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
