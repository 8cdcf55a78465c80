"""The login on a connection: SaslHandshake version 1, then SaslAuthenticate for each message of the mechanism.

Sources: KIP-43, KIP-152 (SaslAuthenticate), KIP-368 (a session has a lifetime, and is renewed on the same connection).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...wire.errors import ErrorCode
from ...wire.messages.control import milliseconds
from ..errors import AuthenticationFailed, UnsupportedApi, broker_error
from ..security.mechanisms import MechanismRefused

if TYPE_CHECKING:
    from ..security.client_security import ClientSecurity

HANDSHAKE = (17, 1)
AUTHENTICATE_KEY, AUTHENTICATE_VERSIONS = 36, (0, 2)

Call = Callable[[tuple[int, int], Mapping[str, Any]], Any]
"""Sends one request and returns its response."""


def log_in(call: Call, served: Mapping[int, tuple[int, int]], security: "ClientSecurity", address: str) -> int:
    """Say who we are. Return the session's lifetime in ms, 0 if it has no end.

    Raises `AuthenticationFailed` (noted in `security`, so that it is not tried again at once), `TokenUnavailable`, and what
    `call` raises.
    """
    try:
        lifetime_ms = _log_in(call, served, security, address)
    except AuthenticationFailed as error:
        security.refused(address, error)
        raise
    security.accepted(address)
    return lifetime_ms


def _log_in(call: Call, served: Mapping[int, tuple[int, int]], security: "ClientSecurity", address: str) -> int:
    mechanism = security.mechanism
    assert mechanism is not None
    exchange = security.exchange()
    try:
        message = next(exchange)  # before the handshake: it may have to wait for a token
    except MechanismRefused as error:
        raise AuthenticationFailed(address, mechanism, str(error)) from None
    version = _authenticate_version(served, address)
    answer = call(HANDSHAKE, {"mechanism": mechanism})
    if answer.error_code:
        raise AuthenticationFailed(address, mechanism, _why_no_handshake(int(answer.error_code), answer.mechanisms))
    while True:
        answer = call((AUTHENTICATE_KEY, version), {"auth_bytes": message})
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            said = answer.error_message or "the broker gives no reason"
            raise AuthenticationFailed(address, mechanism, said)
        if answer.error_code:
            raise broker_error(f"SaslAuthenticate to {address}", int(answer.error_code), answer.error_message)
        try:
            message = exchange.send(answer.auth_bytes)
        except StopIteration:
            lifetime = getattr(answer, "session_lifetime", None)
            return 0 if lifetime is None else milliseconds(lifetime)
        except MechanismRefused as error:
            raise AuthenticationFailed(address, mechanism, str(error)) from None


def _authenticate_version(served: Mapping[int, tuple[int, int]], address: str) -> int:
    needed = (("SaslHandshake", HANDSHAKE[0], 1, 1), ("SaslAuthenticate", AUTHENTICATE_KEY, *AUTHENTICATE_VERSIONS))
    for name, key, lowest, highest in needed:
        found = served.get(key)
        if found is None or found[1] < lowest or found[0] > highest:
            raise UnsupportedApi(address, name, (lowest, highest), found)
    return min(AUTHENTICATE_VERSIONS[1], served[AUTHENTICATE_KEY][1])


def _why_no_handshake(code: int, mechanisms: tuple[str, ...]) -> str:
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return f"the broker does not take this mechanism, it takes {', '.join(mechanisms) or 'none'}: correct sasl.mechanism"
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        return "this listener takes no login: set security.protocol to PLAINTEXT or SSL, or use its SASL listener"
    return f"the broker answers the handshake with error {code}"
