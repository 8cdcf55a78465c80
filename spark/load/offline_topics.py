"""The topics that the warehouse loads: all of the offline cluster except the platform's own and drills'."""

from ...client.connection.cluster import Cluster
from ...client.security.chosen import named_for
from ...runtime.layout import Layout, is_internal, is_scratch


def loadable_topics(layout: Layout | None = None, *, bootstrap: str | None = None) -> list[str]:
    """Return the offline cluster's topics of events, sorted. Raises the client's errors."""
    bootstrap = bootstrap or (layout or Layout.from_environment()).offline_bootstrap
    cluster = Cluster(bootstrap, client_id="headrace-load", security=named_for(bootstrap, None))
    try:
        return [topic for topic in cluster.topics() if not (is_internal(topic) or is_scratch(topic))]
    finally:
        cluster.close()
