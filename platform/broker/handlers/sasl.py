"""SaslHandshake, key 17, versions 0-1, and SaslAuthenticate, key 36, versions 0-2: a client says who it is.

The state of the login, and which requests it allows, is in `logins/login.py`; the router asks it first. Version 0 of
SaslHandshake has an error: after it, clients of before 2017 send messages without a request's header. It is advertised, because
librdkafka turns SASL off without it. A listener without a login answers ILLEGAL_SASL_STATE, as Apache Kafka does. Trap: after a
closed connection a client that is set up for SASL would try again for ever and say nothing."""

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.deferred_response import DeferredResponse
from ..logins.login import Answered, Login
from .broker import Broker, respond
from .request import Request

HANDSHAKE_KEY, AUTHENTICATE_KEY = 17, 36

NO_LOGIN = "this listener takes no SASL: set security.protocol=PLAINTEXT in the client, or SSL where the listener has TLS"
OLD = "SaslHandshake version 0 is not served: use a client that has SaslAuthenticate (Kafka 1.0, librdkafka 0.11.4)"


def handshake(broker: Broker, request: Request) -> bytes:
    """Return the mechanisms of the listener, with an error unless the one asked for is among them."""
    decoded = control.decode_request(HANDSHAKE_KEY, request.version, request.body)
    login = request.peer.guard
    error, mechanisms = ErrorCode.ILLEGAL_SASL_STATE, list[str]()
    if isinstance(login, Login):
        mechanisms = list(login.mechanisms)
        if request.version == 0:
            broker.notices.warning("sasl_handshake_too_old", peer=request.peer.address, why=OLD)
            error = ErrorCode.UNSUPPORTED_VERSION
        elif login.begin(str(decoded.mechanism)):
            error = ErrorCode.NONE
        else:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return control.encode_response(HANDSHAKE_KEY, request.version, {"error_code": error, "mechanisms": mechanisms})


def authenticate(broker: Broker, request: Request) -> bytes | DeferredResponse:
    """Return the server's next message, or the refusal."""
    version = request.version
    message = bytes(control.decode_request(AUTHENTICATE_KEY, version, request.body).auth_bytes)
    login = request.peer.guard
    if not isinstance(login, Login):
        return _response(version, ErrorCode.ILLEGAL_SASL_STATE, Answered(refusal=NO_LOGIN))
    deferred = DeferredResponse()

    def answer(found: Answered) -> None:
        error = ErrorCode.NONE if found.refusal is None else ErrorCode.SASL_AUTHENTICATION_FAILED
        deferred.complete(respond(_response(version, error, found)))

    login.take(message, answer)
    return deferred


def _response(version: int, error: ErrorCode, answered: Answered) -> bytes:
    message = {
        "error_code": error,
        "error_message": answered.refusal,
        "auth_bytes": answered.message,
        "session_lifetime_ms": answered.lifetime_ms,
    }
    return control.encode_response(AUTHENTICATE_KEY, version, message)
