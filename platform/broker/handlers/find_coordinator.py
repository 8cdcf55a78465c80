"""FindCoordinator, key 10, versions 0-4: which broker coordinates a group. Its offsets are in ZooKeeper, for all brokers.

Trap: transactions (key type 1) have no coordinator here. The error is one after which clients do not try again for ever.
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
    version, listener = request.version, request.peer.listener
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    kind = getattr(decoded, "key_type", GROUP)
    if version >= 4:
        too_many = _nobody(ErrorCode.INVALID_REQUEST, f"one request names at most {MOST_NAMED} keys")
        answers = (
            {"key": key, **(_coordinator(broker, kind, str(key), listener) if number < MOST_NAMED else too_many)}
            for number, key in enumerate(required(decoded.coordinator_keys))
        )
        message: dict[str, Any] = {"throttle_time_ms": 0, "coordinators": answers}
    else:
        message = {"throttle_time_ms": 0, **_coordinator(broker, kind, str(decoded.key), listener)}
    return (yield from control.encode_in_steps(KEY, version, message))


def _coordinator(broker: Broker, kind: int, key: str, listener: str) -> dict[str, Any]:
    if kind == GROUP:
        broker_id = broker.groups.coordinator_id(key)
        address = broker.brokers(listener).get(broker_id)
        if address is None:
            return _nobody(ErrorCode.LISTENER_NOT_FOUND, f"broker {broker_id}, the coordinator, has no listener {listener}")
        host, port = address
        return {"node_id": broker_id, "host": host, "port": port, "error_code": ErrorCode.NONE, "error_message": None}
    if kind == TRANSACTION:
        error, why = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS
    else:
        error, why = ErrorCode.INVALID_REQUEST, f"there are no coordinators of kind {kind} here"
    return _nobody(error, why)


def _nobody(error: ErrorCode, why: str) -> dict[str, Any]:
    return {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": why}
