"""Tells what a cluster's offsets are: positions in bytes (our broker), or numbers of records (Apache Kafka).

Asked, not configured: Kafka and what speaks all of its protocol serve transactions; our broker does not (decision 30).
"""

from .connection.cluster import Cluster
from .errors import UnsupportedApi
from .transactions.requests import ADD_PARTITIONS_TO_TXN

_ANY_VERSION = (0, 32_767)


def counts_records(cluster: Cluster) -> bool:
    """Return whether offsets count records, as in Apache Kafka. Raises ClientError if the cluster does not answer."""
    try:
        cluster.controller().version(ADD_PARTITIONS_TO_TXN, *_ANY_VERSION)
    except UnsupportedApi:
        return False
    return True
