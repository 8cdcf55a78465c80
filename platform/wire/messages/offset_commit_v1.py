"""OffsetCommit version 1, converted to version 2 by hand. kio begins at version 2, and librdkafka wants 1 advertised. Pure.

Source: Kafka's OffsetCommitRequest.json. The response is that of version 2, byte for byte.

    group id string · generation int32 · member id string · topics: count int32, each
        name string · partitions: count int32, each
            partition int32 · offset int64 · commit time int64, ms, not kept · metadata nullable string
"""

import struct
from collections.abc import Generator

from ..errors import MalformedFrame
from ..primitives import INT, LONG, Body, read_count, read_name, read_string
from .control import MOST_ELEMENTS

AS_VERSION = 2
"""The version of the converted request; its response serves version 1 too."""

_PLACE = struct.Struct(">iqq")
_BEFORE_TIME = 4 + 8
_SMALLEST_PARTITION = _PLACE.size + 2
_SMALLEST_TOPIC = 2 + 4
_KEPT_AS_LONG_AS_OTHERS = LONG.pack(-1)


def as_v2_in_steps(body: Body) -> Generator[None, None, bytes]:
    """Return the request as version 2, without commit times. `body` is copied before the first pause; there is one at each
    partition. Raises `MalformedFrame`.
    """
    data = bytes(body)
    try:
        _, at = read_name(data, 0, flexible=False)
        _, at = read_name(data, at + INT.size, flexible=False)
        topic_count, behind = read_count(data, at, flexible=False, each=_SMALLEST_TOPIC)
        pieces = [data[:at], _KEPT_AS_LONG_AS_OTHERS, data[at:behind]]
        elements, at = topic_count, behind
        for _ in range(topic_count):
            start = at
            _, at = read_name(data, at, flexible=False)
            number, at = read_count(data, at, flexible=False, each=_SMALLEST_PARTITION)
            pieces.append(data[start:at])
            elements += number
            if number < 0 or elements > MOST_ELEMENTS:
                raise MalformedFrame(f"{elements} elements in an OffsetCommit v1: at most {MOST_ELEMENTS}, and no array is null")
            for _ in range(number):
                _, end = read_string(data, at + _PLACE.size, flexible=False)
                pieces += (data[at : at + _BEFORE_TIME], data[at + _PLACE.size : end])
                at = end
                yield
    except (struct.error, IndexError):
        raise MalformedFrame(f"an OffsetCommit v1 of {len(data)} bytes is cut") from None
    return b"".join(pieces)
