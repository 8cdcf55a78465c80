"""SaslHandshake, key 17, versions 0-1, and SaslAuthenticate, key 36, versions 0-2: no listener has SASL.

Both are answered ILLEGAL_SASL_STATE, as by Apache Kafka on a listener without SASL. Trap: after a closed connection a client that
is set up for SASL would try again for ever and say nothing."""

from ...wire.errors import ErrorCode
from ...wire.messages import control
from .broker import Broker
from .request import Request

HANDSHAKE_KEY, AUTHENTICATE_KEY = 17, 36

WHY = "this listener takes no SASL: set security.protocol=PLAINTEXT in the client, or SSL where the listener has TLS"


def handshake(broker: Broker, request: Request) -> bytes:
    """Return the refusal, with an empty list of mechanisms."""
    control.decode_request(HANDSHAKE_KEY, request.version, request.body)
    return control.encode_response(HANDSHAKE_KEY, request.version, {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []})


def authenticate(broker: Broker, request: Request) -> bytes:
    """Return the refusal, with its reason."""
    control.decode_request(AUTHENTICATE_KEY, request.version, request.body)
    message = {
        "error_code": ErrorCode.ILLEGAL_SASL_STATE,
        "error_message": WHY,
        "auth_bytes": b"",
        "session_lifetime_ms": 0,
    }
    return control.encode_response(AUTHENTICATE_KEY, request.version, message)
