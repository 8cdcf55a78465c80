"""ApiVersions, key 18, versions 0-3: what this broker serves.

Traps: the client asks before it knows any version. A version above ours is answered with a v0 body, error 35 and our ranges
(`wire.control` does this). The response header is never flexible (the router does this)."""

from ...wire.messages import control
from .broker import Broker
from .request import Request

KEY = 18


def handle(broker: Broker, request: Request) -> bytes:
    """Return the table, and that offsets are positions in bytes. The body is not read: every client gets the same response."""
    return control.encode_api_versions(request.version, broker.supported, [control.BYTE_OFFSETS])
