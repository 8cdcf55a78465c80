"""Who leads instead, and where: the tagged fields of KIP-951, which responses of Produce 10 and Fetch 16 share. Source:
ProduceResponse.json, FetchResponse.json.

    leader      broker int32 · leader epoch int32 · tags
    endpoints   [ broker int32 · host · port int32 · rack · tags ]
"""

import struct
from collections.abc import Mapping

from ..primitives import INT, NO_TAGS, count, string

_LEADER = struct.Struct(">ii")


def leader_bytes(leader: tuple[int, int]) -> bytes:
    """Return a leader, which is a broker and its epoch."""
    return _LEADER.pack(*leader) + NO_TAGS


def endpoints_bytes(endpoints: Mapping[int, tuple[str, int]]) -> bytes:
    """Return host and port of brokers, by id. No broker here has a rack."""
    return count(len(endpoints), flexible=True) + b"".join(
        INT.pack(broker_id) + string(host, flexible=True) + INT.pack(port) + string(None, flexible=True) + NO_TAGS
        for broker_id, (host, port) in sorted(endpoints.items())
    )
