"""ListOffsets version 0, read and written by hand: kio begins at 1, and librdkafka before 1.6 asks for begin and end with it.

Pure.

Source: Kafka's ListOffsetsRequest.json and -Response.json.

    request   replica id int32 · topics: count int32, each
                  name string · partitions: count int32, each
                      partition int32 · time int64, ms, -1 end, -2 begin · most offsets wanted int32
    response  topics: count int32, each
                  name string · partitions: count int32, each
                      partition int32 · error code int16 · offsets: count int32, each int64, the latest first
"""

import struct
from collections.abc import Generator, Sequence
from typing import NamedTuple

from .control import MOST_ELEMENTS
from .errors import ErrorCode, MalformedFrame
from .primitives import INT, Body, read_count, read_name, string

_WANTED = struct.Struct(">iqi")
_FOUND = struct.Struct(">ihi")
_SMALLEST_TOPIC = 2 + 4


class Wanted(NamedTuple):
    """One partition asked about."""

    partition: int
    timestamp_ms: int
    most_offsets: int


class Found(NamedTuple):
    """What one partition is answered with."""

    partition: int
    error: ErrorCode
    offsets: Sequence[int]


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


def encode_in_steps(topics: Sequence[tuple[str, Sequence[Found]]]) -> Generator[None, None, bytes]:
    """Return the answer's body, with a pause after each partition."""
    pieces = [INT.pack(len(topics))]
    for name, each in topics:
        pieces += (string(name, flexible=False), INT.pack(len(each)))
        for found in each:
            pieces.append(_found(found))
            yield
    return b"".join(pieces)


def _found(one: Found) -> bytes:
    return _FOUND.pack(one.partition, one.error, len(one.offsets)) + struct.pack(f">{len(one.offsets)}q", *one.offsets)
