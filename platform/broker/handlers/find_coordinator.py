"""FindCoordinator, key 10, versions 0-4: which broker coordinates a group. Its offsets are in ZooKeeper, for all brokers.

Transactions (key type 1) have no coordinator here. The error is one after which the client stops and shows our message. Trap:
librdkafka (versions up to 2) stops after TRANSACTIONAL_ID_AUTHORIZATION_FAILED only. Kafka's Java client (3 and later) shows the
message of any error but that.
"""

from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .batch_rules import NO_TRANSACTIONS
from .broker import Broker, required
from .group_id import MOST_NAMED
from .request import Request

KEY = 10

GROUP, TRANSACTION = 0, 1


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the broker for each group, an error for anything else."""
    version, client_id, listener = request.version, request.client_id, request.peer.listener
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    kind = getattr(decoded, "key_type", GROUP)
    if kind == TRANSACTION:
        broker.notices.warning("transactions_not_supported", peer=request.peer.address, client_id=client_id, why=NO_TRANSACTIONS)
    if version >= 4:
        too_many = _nobody(ErrorCode.INVALID_REQUEST, f"one request names at most {MOST_NAMED} keys")
        answers = (
            {"key": key, **(_coordinator(broker, version, kind, str(key), listener) if number < MOST_NAMED else too_many)}
            for number, key in enumerate(required(decoded.coordinator_keys))
        )
        message: dict[str, Any] = {"throttle_time_ms": 0, "coordinators": answers}
    else:
        message = {"throttle_time_ms": 0, **_coordinator(broker, version, kind, str(decoded.key), listener)}
    return (yield from control.encode_in_steps(KEY, version, message))


def _coordinator(broker: Broker, version: int, kind: int, key: str, listener: str) -> dict[str, Any]:
    if kind == GROUP:
        broker_id = broker.groups.coordinator_id(key)
        address = broker.brokers(listener).get(broker_id)
        if address is None:
            return _nobody(ErrorCode.LISTENER_NOT_FOUND, f"broker {broker_id}, the coordinator, has no listener {listener}")
        host, port = address
        return {"node_id": broker_id, "host": host, "port": port, "error_code": ErrorCode.NONE, "error_message": None}
    if kind == TRANSACTION:
        is_old = version < 3
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_old else ErrorCode.UNSUPPORTED_VERSION
        why = NO_TRANSACTIONS
    else:
        error, why = ErrorCode.INVALID_REQUEST, f"there are no coordinators of kind {kind} here"
    return _nobody(error, why)


def _nobody(error: ErrorCode, why: str) -> dict[str, Any]:
    return {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": why}
