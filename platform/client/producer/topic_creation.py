"""Makes a topic of events that is missing, as Apache Kafka must be asked to create it. Our broker creates it without a request.

Kafka's retention and its bounds on timestamps go by event time: under its defaults replayed events of years ago would be deleted
within minutes, and events of tomorrow refused. So a topic that we make there says both for itself. A topic that exists is left
as it is, and a cluster that does not create topics automatically (`auto.create.topics.enable=false`) is not asked to.
"""

from ...runtime.logs import get_library_logger
from ...wire.errors import ErrorCode
from ..admin import CLUSTERS_OWN, create_topic
from ..connection.cluster import Cluster
from ..errors import BrokerError, UnknownTopic, UnsupportedApi

log = get_library_logger(__name__)

SETTINGS = {
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str((1 << 63) - 1),
    "message.timestamp.before.max.ms": str((1 << 63) - 1),
}
AUTO_CREATE = "auto.create.topics.enable"
KAFKAS_OWN = "log.message.timestamp.after.max.ms"
"""What Kafka knows (since 3.6) and our broker does not."""
CREATE_MS = 5_000
_OLD_KAFKA = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST})


def partitions_of(cluster: Cluster, topic: str) -> list[int]:
    """Return the topic's partitions, sorted; make the topic where it is missing. Raises as `Cluster.partitions`."""
    try:
        return cluster.partitions(topic)
    except UnknownTopic:
        settings = _broker_settings(cluster)
        if KAFKAS_OWN not in settings:
            return cluster.partitions(topic, may_create=True)  # our broker, whose age is the time in the broker
        if settings.get(AUTO_CREATE) != "true":
            raise
    _create(cluster, topic)
    return cluster.partitions(topic)


def _broker_settings(cluster: Cluster) -> dict[str, str]:
    """Return what the cluster says of itself; nothing if it serves no such request, or not to us."""
    try:
        return cluster.broker_settings((AUTO_CREATE, KAFKAS_OWN))
    except UnsupportedApi:
        return {}
    except BrokerError as error:
        if error.retriable:
            raise
        return {}


def _create(cluster: Cluster, topic: str) -> None:
    try:
        is_new = create_topic(cluster, topic, CLUSTERS_OWN, SETTINGS, replication_factor=CLUSTERS_OWN, timeout_ms=CREATE_MS)
    except BrokerError as error:
        if ErrorCode.of(error.code) not in _OLD_KAFKA:
            raise
        cluster.partitions(topic, may_create=True)
        return
    if is_new:
        log.info("topic_made", topic=topic, settings=SETTINGS)
