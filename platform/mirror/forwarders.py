"""Builds the forwarder of a pair of clusters: what appends, what keeps the books, by what the two clusters are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ..audit.publisher import RangeReporter
from ..client.connection.cluster import Cluster
from ..coordination.mirror_sources import MirrorSources
from ..coordination.session import Session
from ..runtime.clock import Clock
from .control.governor import Governor
from .copies import Copies
from .counting import Counting
from .destination import Destination
from .discovery import Discovery
from .engine import Engine
from .fetching.source_fetch import SourceFetch
from .forwarder import Forwarder
from .identical import IdenticalPlacement
from .placement import Placement
from .quarantine import CorruptRanges
from .restamped.destination_topics import DestinationTopics
from .restamped.placed_sink import PlacedSink
from .restamped.placement import LIMITS, RestampedPlacement
from .restamped.sink import Sink
from .restamped.transactional_sink import TransactionalSink
from .schemas.schemas_copy import SCHEMAS_CONFIG, OnlySchemas, SchemasCopy, Uncounted
from .topics.naming import Naming


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two clusters and how copies are made between them."""

    source: Cluster
    target: Cluster
    engines: tuple[Engine, Engine]
    session: Session | None
    """With the destination's ZooKeeper, for identical copies; None: copies with offsets of their own."""
    name: str
    replication_factor: int
    allows_retention: bool
    transaction_timeout_ms: int


def forwarder_of(
    pair: Pair,
    counting: Counting,
    naming: Naming,
    clock: Clock,
    *,
    config: Mapping[str, str] | None = None,
) -> Forwarder:
    """Return the forwarder of the topics that `naming` wants. `config`: settings of topics that it makes."""
    copies, governor = Copies(clock), Governor()
    topics: Destination | DestinationTopics
    placement: Placement
    if pair.session is not None:
        topics = Destination(pair.target, naming, config=config)
        discovery = Discovery(pair.source, topics, clock, naming)
        fetching = SourceFetch(pair.source, governor, clock)
        kept_ids = MirrorSources(pair.session)
        placement = IdenticalPlacement(pair.source, topics, copies, counting, clock, naming=naming, kept_ids=kept_ids)
    else:
        topics = DestinationTopics(
            pair.target,
            pair.source,
            clock,
            engine=pair.engines[1],
            replication_factor=pair.replication_factor,
            allows_retention=pair.allows_retention,
            naming=naming,
            config=config,
        )
        discovery = Discovery(pair.source, topics, clock, naming)
        fetching = SourceFetch(pair.source, governor, clock, LIMITS, is_read_committed=True)
        is_dense = pair.engines[0] is Engine.KAFKA
        sink: Sink = (
            TransactionalSink(pair.target, pair.name, clock, transaction_timeout_ms=pair.transaction_timeout_ms)
            if pair.engines[1] is Engine.KAFKA
            else PlacedSink(pair.target, pair.source, pair.name, clock)
        )
        placement = RestampedPlacement(
            pair.source, topics, sink, pair.name, discovery, copies, counting, clock, is_dense=is_dense, naming=naming
        )
    return Forwarder(
        source=pair.source,
        discovery=discovery,
        fetching=fetching,
        placement=placement,
        copies=copies,
        counting=counting,
        governor=governor,
        clock=clock,
    )


def schemas_copy_of(pair: Pair, quarantine: CorruptRanges, clock: Clock) -> SchemasCopy:
    """Return the copy of the schemas topic. `pair` has connections of its own: an append of data may be in flight beside it."""
    uncounted = Uncounted()
    counting = Counting(cast("RangeReporter", uncounted), uncounted, quarantine)
    return SchemasCopy(pair.source, forwarder_of(pair, counting, OnlySchemas(), clock, config=SCHEMAS_CONFIG))
