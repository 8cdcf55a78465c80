"""The two formats of the registries' nodes, read strictly: decimals and JSON objects. Pure."""

import json
from typing import Any

from .errors import UnreadableNode

OFFSET_LIMIT = 1 << 63


def decimal(value: int) -> bytes:
    """Return a count or offset as its node's bytes. Raises ValueError below 0 and from 2^63 on."""
    if not 0 <= value < OFFSET_LIMIT:
        raise ValueError(f"{value} is not an offset: 0 to 2^63-1")
    return str(value).encode()


def read_decimal(path: str, data: bytes) -> int:
    """Return the number in a node's `data`. Raises UnreadableNode."""
    if not data.isdigit() or len(data) > 19 or int(data) >= OFFSET_LIMIT:
        raise UnreadableNode(path, data, "a decimal from 0 to 2^63-1 is expected")
    return int(data)


def json_bytes(value: dict[str, Any]) -> bytes:
    """Return a JSON object as its node's bytes. The keys are sorted: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def read_json(path: str, data: bytes) -> dict[str, Any]:
    """Return the JSON object in a node's `data`. Raises UnreadableNode."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise UnreadableNode(path, data, str(error)) from None
    if not isinstance(value, dict):
        raise UnreadableNode(path, data, "a JSON object is expected")
    return value
