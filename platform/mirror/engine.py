"""What a cluster is to the mirror: our broker, which keeps offsets as they are copied, or Apache Kafka, which gives its own."""

from enum import Enum

from ..client.cluster_kind import counts_records
from ..client.connection.cluster import Cluster


class Engine(Enum):
    HEADRACE = "headrace"
    KAFKA = "kafka"


class Mode(Enum):
    """How batches are copied. The value is the word on the command line and in the status file."""

    IDENTICAL = "identical"
    """Ours to ours: the same bytes at the same offsets."""
    TRANSACTIONAL = "transactional"
    """To Kafka: restamped, in transactions that hold the ledger, too."""
    PLACED = "placed"
    """Kafka to ours: conditional appends at the log end, the ledger written behind them."""


def engine_of(cluster: Cluster) -> Engine:
    """Return what the cluster is. Raises ClientError if it does not answer."""
    return Engine.KAFKA if counts_records(cluster) else Engine.HEADRACE


def mode_for(source: Engine, destination: Engine) -> Mode:
    if destination is Engine.KAFKA:
        return Mode.TRANSACTIONAL
    return Mode.IDENTICAL if source is Engine.HEADRACE else Mode.PLACED
