"""ApiVersions, key 18, versions 0-3: what this broker serves.

Trap: the client asks before it knows anything. A version above ours is answered with a v0 body, error 35 and our ranges, and
the response header is never flexible; the router knows the latter, `wire.control` the former."""

from ...wire import control
from .broker import Broker
from .request import Request

KEY = 18


def handle(broker: Broker, request: Request) -> bytes:
    """Return the table. The body is not looked at: whatever a client says of itself, it gets the same answer."""
    return control.encode_api_versions(request.version, broker.supported)
