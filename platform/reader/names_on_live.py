"""Whether topics of the offline cluster have originals of their names, with which the audit compares their reader."""

from functools import partial

from ..client.connection.cluster import Cluster
from ..client.errors import UnknownTopic
from ..errors import HeadraceError
from .loop_settings import LoopSettings
from .patience import patiently


class NotOnLive(HeadraceError):
    """A topic of the offline cluster has no original of its name."""

    def __init__(self, topic: str, live: str) -> None:
        super().__init__(
            f"the live cluster {live} has no topic {topic!r}: the mirror gave its copy another name, or it was deleted there. "
            "The audit has nothing to compare the reader with: run it with --no-audit (in code: audit=False)"
        )


def see_names(live: Cluster, cluster: Cluster, settings: LoopSettings) -> None:
    """Raise NotOnLive for a topic that `cluster`, the offline one, has and the live one has not."""
    for topic in settings.topics:
        if not patiently(partial(_has, live, topic)) and patiently(partial(_has, cluster, topic)):
            raise NotOnLive(topic, settings.audit_bootstrap or "")


def _has(cluster: Cluster, topic: str) -> bool:
    try:
        return bool(cluster.partitions(topic))
    except UnknownTopic:
        return False
