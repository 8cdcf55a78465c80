"""Tells what a cluster's offsets are: positions in bytes (our broker), or numbers of records (Apache Kafka).

Asked, not configured. Our broker announces it as a feature. An older one does not, and is known by what it lacks: Kafka and what
speaks all of its protocol serve transactions, our broker does not (decision 30).
"""

from ..wire.errors import WireError
from ..wire.messages import control
from .connection.cluster import Cluster
from .connection.connection import Connection
from .errors import BadAnswer, UnsupportedApi
from .transactions.requests import ADD_PARTITIONS_TO_TXN

_ANY_VERSION = (0, 32_767)
_WITH_FEATURES = 3
"""The version of ApiVersions."""
_SOFTWARE = {"client_software_name": "headrace", "client_software_version": "1"}


def counts_records(cluster: Cluster) -> bool:
    """Return whether offsets count records, as in Apache Kafka. Raises ClientError if the cluster does not answer."""
    connection = cluster.controller()
    if control.BYTE_OFFSETS in _features(connection):
        return False
    try:
        connection.version(ADD_PARTITIONS_TO_TXN, *_ANY_VERSION)
    except UnsupportedApi:
        return False
    return True


def is_headrace(connection: Connection) -> bool:
    """Return whether this broker announces itself as one of this platform. Raises ClientError if it does not answer."""
    return control.BYTE_OFFSETS in _features(connection)


def _features(connection: Connection) -> set[str]:
    key = control.API_VERSIONS_KEY
    if connection.version(key, 0, _WITH_FEATURES) < _WITH_FEATURES:
        return set()
    answer = connection.request(key, _WITH_FEATURES, control.encode_request(key, _WITH_FEATURES, _SOFTWARE))
    try:
        return control.features_of(_WITH_FEATURES, answer)
    except WireError as error:
        raise BadAnswer(connection.address, "ApiVersions", str(error)) from error
