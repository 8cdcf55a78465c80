"""InitProducerId, key 22, versions 0-4: an id for an idempotent producer, never given to another.

A transactional id is refused. A producer that sends its old id (3 and later) gets a new one. That is right without transactions,
and the old id's sequences stay as they are. An id without an epoch, or an epoch without an id, is refused."""

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.deferred_response import DeferredResponse
from .broker import Broker, respond
from .request import Request

KEY = 22


def handle(broker: Broker, request: Request) -> bytes | DeferredResponse:
    """Return a new producer id with epoch 0, once ZooKeeper has given a block of ids."""
    version = request.version
    decoded = control.decode_request(KEY, version, request.body)
    is_half_named = (getattr(decoded, "producer_id", -1) == -1) != (getattr(decoded, "producer_epoch", -1) == -1)
    if is_half_named or decoded.transactional_id == "":
        return _answer(version, ErrorCode.INVALID_REQUEST, None)
    if decoded.transactional_id is not None:
        return _answer(version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    deferred = DeferredResponse()

    def done(producer_id: int | None) -> None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if producer_id is None else ErrorCode.NONE
        deferred.complete(respond(_answer(version, error, producer_id)))

    broker.producer_ids.take(done)
    return deferred


def _answer(version: int, error: ErrorCode, producer_id: int | None) -> bytes:
    message = {
        "throttle_time_ms": 0,
        "error_code": error,
        "producer_id": -1 if producer_id is None else producer_id,
        "producer_epoch": -1 if producer_id is None else 0,
    }
    return control.encode_response(KEY, version, message)
