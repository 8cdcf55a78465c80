"""DescribeCluster, key 60, versions 0-1: the cluster's id and brokers. Each broker names itself as the controller."""

from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from .broker import Broker
from .request import Request

KEY = 60

BROKERS = 1
AUTHORIZED_OPERATIONS_NOT_GIVEN = -(2**31)


def handle(broker: Broker, request: Request) -> bytes:
    """Return the brokers. A client that asks for controllers gets an error: they have no listener of their own here."""
    decoded = control.decode_request(KEY, request.version, request.body)
    endpoint_type = int(getattr(decoded, "endpoint_type", BROKERS))
    message: dict[str, Any]
    if endpoint_type != BROKERS:
        message = {
            "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE if endpoint_type == 2 else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "error_message": f"endpoint type {endpoint_type} was asked for and this is a broker's: ask for brokers (1)",
            "cluster_id": "",
            "controller_id": -1,
            "brokers": [],
        }
    else:
        message = {
            "error_code": ErrorCode.NONE,
            "error_message": None,
            "cluster_id": broker.topics.catalog.cluster_id or "",
            "controller_id": broker.settings.broker_id,
            "brokers": [
                {"broker_id": broker_id, "host": host, "port": port, "rack": None}
                for broker_id, (host, port) in sorted(broker.brokers(request.peer.listener).items())
            ],
        }
    message |= {
        "throttle_time_ms": 0,
        "endpoint_type": BROKERS,
        "cluster_authorized_operations": AUTHORIZED_OPERATIONS_NOT_GIVEN,
    }
    return control.encode_response(KEY, request.version, message)
