"""ListOffsets version 0, read by hand. kio begins at version 1, and librdkafka before 1.6 asks for begin and end with version 0.
The response is in `old_versions`. Pure.

Source: Kafka's ListOffsetsRequest.json.

    request   replica id int32 · topics: count int32, each
                  name string · partitions: count int32, each
                      partition int32 · time int64, ms, -1 end, -2 begin · most offsets wanted int32
"""

import struct
from collections.abc import Generator
from typing import NamedTuple

from ..errors import MalformedFrame
from ..primitives import INT, Body, read_count, read_name
from .control import MOST_ELEMENTS

_WANTED = struct.Struct(">iqi")
_SMALLEST_TOPIC = 2 + 4


class Wanted(NamedTuple):
    """One partition of the request."""

    partition: int
    timestamp_ms: int
    most_offsets: int


def decode_in_steps(body: Body) -> Generator[None, None, list[tuple[str, list[Wanted]]]]:
    """Return the partitions asked about, by topic, in order. `body` is copied before the first pause; there is one at each
    partition. Raises `MalformedFrame`.
    """
    topics: list[tuple[str, list[Wanted]]] = []
    body = bytes(body)
    try:
        elements, at = read_count(body, INT.size, flexible=False, each=_SMALLEST_TOPIC)
        for _ in range(elements):
            name, at = read_name(body, at, flexible=False)
            count, at = read_count(body, at, flexible=False, each=_WANTED.size)
            elements += count
            if count < 0 or elements > MOST_ELEMENTS:
                raise MalformedFrame(f"{elements} elements in a ListOffsets v0: at most {MOST_ELEMENTS}, and no array is null")
            topics.append((name, []))
            for _ in range(count):
                topics[-1][1].append(Wanted(*_WANTED.unpack_from(body, at)))
                at += _WANTED.size
                yield
    except (struct.error, IndexError):
        raise MalformedFrame(f"a ListOffsets v0 of {len(body)} bytes is cut") from None
    return topics
