"""Refuses requests whose API or version is not served: with the protocol's own error where it has one, else by closing the
connection. The log names the peer, its request and what is served.

Clients that use ApiVersions never send such a request."""

from collections.abc import Mapping

from ...runtime.rate_limited_log import RateLimitedLog
from ...wire.errors import ErrorCode
from ...wire.messages.refusals import refusal
from ..errors import FrameRefused
from ..network.peer import Peer
from ..network.request_header import FIXED_HEADER_SIZE, body_start

LONGEST_CLIENT_ID = 100
"""Characters of a client id that are logged."""


class Unserved:
    """Refuses requests. `served` has each API's name, lowest and highest version by its key."""

    def __init__(self, served: Mapping[int, tuple[str, int, int]], log: RateLimitedLog) -> None:
        self._served = served
        self._log = log

    def answer(self, frame: memoryview, api_key: int, version: int, client_id_length: int, peer: Peer) -> tuple[bytes, bool]:
        """Return the body of a response with UNSUPPORTED_VERSION, and whether its header is flexible.

        Raises: FrameRefused when the protocol has no such response; MalformedFrame.
        """
        body_start(frame, client_id_length, flexible=False)
        client_id = bytes(frame[FIXED_HEADER_SIZE : FIXED_HEADER_SIZE + max(0, client_id_length)]).decode(errors="replace")
        why = self._why(api_key, version)
        answer = refusal(api_key, version, ErrorCode.UNSUPPORTED_VERSION, why)
        if answer is None:
            raise FrameRefused(f"{why}; asked by client {client_id[:LONGEST_CLIENT_ID]!r}", "not_served")
        self._log.warning("request_not_served", peer=peer.address, client_id=client_id[:LONGEST_CLIENT_ID], why=why)
        return answer

    def _why(self, api_key: int, version: int) -> str:
        api = self._served.get(api_key)
        if api is None:
            return f"API key {api_key} (version {version}) is not served here: ApiVersions lists what is"
        name, lowest, highest = api
        return f"{name} (API key {api_key}) version {version} is not served here: {lowest} to {highest} are"
