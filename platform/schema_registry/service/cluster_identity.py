"""The cluster's own id, from one request to its controller."""

from ...client.connection.cluster import Cluster
from ...client.connection.control_plane import METADATA
from ...client.errors import BadAnswer
from ...wire.errors import WireError
from ...wire.messages import control


def cluster_id(cluster: Cluster) -> str:
    """Return the cluster's id; empty if it has none. Raises `ClientError`."""
    api_key, version = METADATA
    connection = cluster.controller()
    connection.version(api_key, version, version)
    body = connection.request(
        api_key, version, control.encode_request(api_key, version, {"topics": [], "allow_auto_topic_creation": False})
    )
    try:
        return str(control.decode_response(api_key, version, body).cluster_id or "")
    except WireError as error:
        raise BadAnswer(connection.address, f"API {api_key}", str(error)) from error
