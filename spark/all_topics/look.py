"""What is new of which topics: the cluster's logs against what the tables have committed. No JVM starts for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...client.cluster_kind import counts_records
from ...client.connection.cluster import Cluster
from ...runtime import logs
from ..load.topic_load import ranges_to_load
from ..source.log_density import bytes_per_record
from ..source.log_ends import LogEnds, ends_of_topics
from ..warehouse.warehouse import Warehouse
from .fair_batches import NewRecords
from .known_offsets import KnownOffsets

log = logs.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found."""

    news: tuple[NewRecords, ...] = ()
    faults: dict[str, Exception] = field(default_factory=dict)
    """Topics for which this is unknown."""


def look(cluster: Cluster, warehouse: Warehouse, topics: Sequence[str]) -> Look:
    """Return what is new of these topics. Raises BrokerUnreachable, if no broker of the cluster answers."""
    density: Callable[[NewRecords], int] = lambda news: 1  # noqa: E731
    if counts_records(cluster):
        density = lambda news: bytes_per_record(cluster, news.topic, news.ranges)  # noqa: E731
    known = KnownOffsets(warehouse)
    found: list[NewRecords] = []
    faults: dict[str, Exception] = {}
    for topic, ends in ends_of_topics(cluster, topics).items():
        try:
            if not isinstance(ends, LogEnds):
                raise ends
            ranges = ranges_to_load(topic, loaded=known.of(topic), log_start=ends.start, log_end=ends.end)
            if ranges:
                news = NewRecords(topic=topic, ranges=tuple(ranges))
                found.append(NewRecords(topic=topic, ranges=news.ranges, bytes_per_offset=density(news)))
        except Exception as error:  # a table's metadata that is gone, say: it is this topic's
            faults[topic] = error
    known.keep()
    return Look(news=tuple(found), faults=faults)
