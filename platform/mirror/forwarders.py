"""Builds the forwarder of a pair of clusters: what appends, what keeps the books, by what the two clusters are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ..audit.publisher import RangeReporter
from ..client.connection.cluster import Cluster
from ..coordination.brokers import BrokerRegistry
from ..coordination.mirror_sources import MirrorSources
from ..coordination.session import Session
from ..coordination.topics import TopicRegistry
from ..runtime.clock import Clock
from .destination import Destination
from .engine import Engine
from .forwarder import Forwarder
from .quarantine import CorruptRanges
from .restamped.destination_topics import DestinationTopics
from .restamped.forwarder import RestampedForwarder
from .restamped.placed_sink import PlacedSink
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
    reporter: RangeReporter,
    quarantine: CorruptRanges,
    naming: Naming,
    clock: Clock,
    *,
    config: Mapping[str, str] | None = None,
) -> Forwarder:
    """Return the forwarder of the topics that `naming` wants. `config`: settings of topics that it makes."""
    if pair.session is not None:
        topics, brokers = TopicRegistry(pair.session), BrokerRegistry(pair.session)
        return Forwarder(
            source=pair.source,
            destination=Destination(pair.target, topics, brokers, naming, config=config),
            reporter=reporter,
            quarantine=quarantine,
            clock=clock,
            naming=naming,
            kept_ids=MirrorSources(pair.session),
        )
    sink: Sink = (
        TransactionalSink(pair.target, pair.name, clock, transaction_timeout_ms=pair.transaction_timeout_ms)
        if pair.engines[1] is Engine.KAFKA
        else PlacedSink(pair.target, pair.source, pair.name, clock)
    )
    return RestampedForwarder(
        source=pair.source,
        is_dense=pair.engines[0] is Engine.KAFKA,
        topics=DestinationTopics(
            pair.target,
            pair.source,
            clock,
            engine=pair.engines[1],
            replication_factor=pair.replication_factor,
            allows_retention=pair.allows_retention,
            naming=naming,
            config=config,
        ),
        sink=sink,
        mirror=pair.name,
        reporter=reporter,
        quarantine=quarantine,
        clock=clock,
        naming=naming,
    )


def schemas_copy_of(pair: Pair, quarantine: CorruptRanges, clock: Clock) -> SchemasCopy:
    """Return the copy of the schemas topic. `pair` has connections of its own: an append of data may be in flight beside it."""
    uncounted = cast("RangeReporter", Uncounted())
    return SchemasCopy(pair.source, forwarder_of(pair, uncounted, quarantine, OnlySchemas(), clock, config=SCHEMAS_CONFIG))
