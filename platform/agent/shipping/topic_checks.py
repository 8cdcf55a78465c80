"""Whether topics can be sent to: one whose broker rewrites the times (and so each CRC) is refused until the next start."""

from ...client.connection.cluster import Cluster
from ...client.errors import ClientError
from ...errors import HeadraceError
from ...runtime.logs import get_logger
from ...sdk.direct import topic_times

log = get_logger(__name__)

AWAY = "the cluster does not answer"


class TopicChecks:
    """Each topic is asked about once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._checked: dict[str, str | None] = {}

    def fault_of(self, topic: str) -> str | None:
        """Return why the agent does not send to a topic, None where it may."""
        if topic not in self._checked:
            try:
                topic_times.check(self._cluster, topic)
                self._checked[topic] = None
            except ClientError as error:
                if error.retriable:
                    return AWAY
                # A broker that does not tell: the times are taken to be the producers'.
                self._checked[topic] = None
            except HeadraceError as error:
                log.error("topic_refused", topic=topic, reason=str(error))
                self._checked[topic] = str(error)
        return self._checked[topic]
