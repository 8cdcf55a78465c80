"""DescribeRecovery, key 20009: what a recovery of a partition that no in-sync replica can lead would give up.

Our own protocol, not advertised. Bodies are JSON, with the names of `Response` and `Replica`.

request    topic, partition
response   error_code, why (no recovery is due), chosen, start_offset, log_start_offset, [replica],
           silent: by broker, why it has not answered, doubt: why acknowledged records may be lost, null if none is
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import MalformedFrame

KEY, VERSION = 20_009, 0


class Replica(NamedTuple):
    """What one replica holds. Ranges are half-open."""

    broker_id: int
    log_start_offset: int
    end_offset: int
    leader_epoch: int
    lost: tuple[tuple[int, int], ...]
    """What would be given up if this were the one that leads."""


class Response(NamedTuple):
    error_code: int
    why: str = ""
    chosen: int = -1
    start_offset: int = -1
    """Where the next batch would begin."""
    log_start_offset: int = -1
    replicas: tuple[Replica, ...] = ()
    silent: Mapping[int, str] = {}
    doubt: str | None = "a broker of an earlier release does not say whether records are lost"
    """Why acknowledged records may be lost. None: none is lost."""


def encode_request(topic: str, partition: int) -> bytes:
    return json.dumps({"topic": topic, "partition": partition}).encode()


def decode_request(body: bytes) -> tuple[str, int]:
    """Raises MalformedFrame."""
    try:
        words = json.loads(body)
        return str(words["topic"]), int(words["partition"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise MalformedFrame(f"DescribeRecovery of {len(body)} bytes cannot be read") from None


def encode_response(response: Response) -> bytes:
    return json.dumps(fields(response)).encode()


def decode_response(body: bytes | memoryview) -> Response:
    """Raises MalformedFrame."""
    try:
        words = json.loads(bytes(body))
        replicas = tuple(_replica(one) for one in words["replicas"])
        silent = {int(one): str(why) for one, why in words["silent"].items()}
        chosen, start, log_start = (int(words[name]) for name in ("chosen", "start_offset", "log_start_offset"))
        found = Response(int(words["error_code"]), str(words["why"]), chosen, start, log_start, replicas, silent)
        return found._replace(doubt=words["doubt"]) if "doubt" in words else found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise MalformedFrame(f"a response to DescribeRecovery of {len(body)} bytes cannot be read") from None


def fields(response: Response) -> dict[str, Any]:
    """Return the response as JSON has it."""
    return {**response._asdict(), "replicas": [one._asdict() for one in response.replicas]}


def _replica(words: Any) -> Replica:
    broker_id, log_start, end, epoch = (
        int(words[name]) for name in ("broker_id", "log_start_offset", "end_offset", "leader_epoch")
    )
    return Replica(broker_id, log_start, end, epoch, tuple((int(begin), int(end)) for begin, end in words["lost"]))
