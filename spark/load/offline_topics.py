"""The topics that the warehouse loads: all of the offline cluster except the platform's own and drills'."""

from ...client.connection.cluster import Cluster
from ...runtime.layout import Layout, is_internal, is_scratch


def loadable_topics(layout: Layout | None = None) -> list[str]:
    """Return the offline cluster's topics of events, sorted. Raises the client's errors."""
    layout = layout or Layout.from_environment()
    cluster = Cluster(layout.offline_bootstrap, client_id="headrace-load")
    try:
        return [topic for topic in cluster.topics() if not (is_internal(topic) or is_scratch(topic))]
    finally:
        cluster.close()
