"""Produce (key 0), request and response, read and written by hand: the way in for every byte of the log. Versions 3 to 10.

Versions 0 to 2 carry message formats older than batches and are refused; servers advertise them anyway, because librdkafka
before 2.11.1 turns compression off where they are missing. Source: Kafka's ProduceRequest.json, ProduceResponse.json.

    request    [transactional id] · acks int16 · timeout int32 · topics [ name · partitions [ index int32 · records bytes ] ]
    response   topics [ name · partitions [ index · error int16 · base offset · log append time · (5+) log start offset
               · (8+) record errors [], error message ] ] · throttle int32

From version 9 on lengths are compact and tagged fields may follow each element. One of them is ours: `MIRROR_TAG`.
Version 10 differs in the response of a broker that does not lead: tag 0 of a partition is its leader (id, epoch), tag 0 of the
response has the leaders' addresses (KIP-951), so that a client goes there without asking for metadata first.
Hot: one read and one write for each produce request; records are views into the frame, never copied.
"""

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..errors import MalformedFrame, UnsupportedVersion
from ..primitives import (
    INT,
    LONG,
    NO_TAGS,
    Body,
    count,
    ends_at,
    read_count,
    read_name,
    read_string,
    read_tags,
    read_unsigned,
    skip_tags,
    string,
    tags,
)
from .leader_hints import endpoints_bytes, leader_bytes

API_KEY = 0
MIN_VERSION = 3
MAX_VERSION = 9
"""Spoken by our clients."""
MAX_SERVED = 10
FIRST_FLEXIBLE = 9
FIRST_WITH_LEADERS = 10
LEADER_TAG = ENDPOINTS_TAG = 0

MOST_ELEMENTS = 20_000
"""Topics and partitions of one request, all together: a frame of 100 MB could name seventeen million without a byte of records,
and take gigabytes and minutes."""
MIRROR_TAG = 28009
"""Tagged field of a partition in a version 9 request, int64: the source's log start offset. Its presence makes the append
conditional: each batch must begin where the log ends, or be there already."""


class ProducePartition(NamedTuple):
    """What one partition is to take. All of this file's are named tuples: one of each is made on each request."""

    index: int  # type: ignore[assignment]  # Kafka's own word; hides tuple.index, which no caller uses on a message
    records: memoryview | bytes | None
    conditional_start: int | None = None
    """The source's log start offset in a mirror's append (version 9 only), else None."""


class ProduceTopic(NamedTuple):
    name: str
    partitions: Sequence[ProducePartition]


class ProduceRequest(NamedTuple):
    acks: int
    """0 no answer at all, 1 the leader's, -1 all in-sync replicas'."""
    timeout_ms: int
    transactional_id: str | None
    topics: Sequence[ProduceTopic]


class ProducePieces(NamedTuple):
    """One partition of a request to be written, its consecutive batches in buffers of their own."""

    index: int  # type: ignore[assignment]
    pieces: Sequence[memoryview | bytes] | None
    conditional_start: int | None = None


class ProduceResponsePartition(NamedTuple):
    index: int  # type: ignore[assignment]  # Kafka's own word; hides tuple.index, which no caller uses on a message
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    """Broker and leader epoch, where this broker does not lead and knows who does. Written from version 10 on."""


class ProduceResponseTopic(NamedTuple):
    name: str
    partitions: Sequence[ProduceResponsePartition]


class ProduceResponse(NamedTuple):
    topics: Sequence[ProduceResponseTopic]
    throttle_time_ms: int = 0
    endpoints: Mapping[int, tuple[str, int]] = MappingProxyType({})
    """Host and port of the current leaders, by broker. Written from version 10 on."""


_ACKS_TIMEOUT = struct.Struct(">hi")
_ACKS_TIMEOUT_COUNT = struct.Struct(">hii")
_ACKS_TIMEOUT_BYTE = struct.Struct(">hiB")
_INDEX_BYTE = struct.Struct(">iB")
_INDEX_SIZE = struct.Struct(">ii")
_NEW = tuple.__new__
_ANSWER = struct.Struct(">ihqq")
_ANSWER_5 = struct.Struct(">ihqqq")
_ANSWER_8 = struct.Struct(">ihqqqih")
_ANSWER_9 = struct.Struct(">ihqqqBBB")


def decode_request(version: int, body: Body) -> ProduceRequest:
    """Return the request; records are views into `body`, writable where it is. Raises `UnsupportedVersion`, `MalformedFrame`."""
    flexible = _is_flexible(version)
    view = memoryview(body)
    try:
        request, at = _read_flexible(view) if flexible else _read_old(view)
    except (struct.error, IndexError):
        raise MalformedFrame(f"a Produce v{version} request of {len(view)} bytes is cut") from None
    if at != len(view):
        ends_at(view, at, f"a Produce v{version} request")
    return request


def _read_old(view: memoryview) -> tuple[ProduceRequest, int]:
    transactional_id, at = read_string(view, 0, flexible=False)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(view, at)
    _, at = read_count(view, at + 6, flexible=False, each=6)
    topics = []
    left = MOST_ELEMENTS - topic_count
    for _ in range(topic_count):
        name, at = read_name(view, at, flexible=False)
        partition_count, at = read_count(view, at, flexible=False, each=8)
        left -= partition_count
        if left < 0:
            raise too_many_elements()
        partitions = []
        for _ in range(partition_count):
            index, size = _INDEX_SIZE.unpack_from(view, at)
            at += 8
            records = None
            if size >= 0:
                records = view[at : at + size]
                at += size
            elif size != -1:
                raise MalformedFrame(f"{size} bytes of records at byte {at} of {len(view)}")
            partitions.append(_NEW(ProducePartition, (index, records, None)))
        topics.append(_NEW(ProduceTopic, (name, partitions)))
    return _NEW(ProduceRequest, (acks, timeout_ms, transactional_id, topics)), at


def _read_flexible(view: memoryview) -> tuple[ProduceRequest, int]:
    """The same for version 9; varints of one byte are read in place, as nearly all are (3.2 against 4.2 µs a request)."""
    transactional_id: str | None = None
    at = 1
    if view[0]:
        transactional_id, at = read_string(view, 0, flexible=True)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_BYTE.unpack_from(view, at)
    at += 7
    if topic_count > 0x7F:
        topic_count, at = read_count(view, at - 1, flexible=True, each=3)
    else:
        topic_count -= 1
    topics = []
    left = MOST_ELEMENTS - topic_count
    for _ in range(topic_count):
        size = view[at]
        after = at + size
        if 0 < size < 0x80 and after <= len(view):
            try:
                name = str(view[at + 1 : after], "utf-8")
            except UnicodeDecodeError as error:
                raise MalformedFrame(f"a topic's name at byte {at} is not UTF-8: {error.reason}") from None
            at = after
        else:
            name, at = read_name(view, at, flexible=True)
        partition_count = view[at]
        if partition_count > 0x7F:
            partition_count, at = read_count(view, at, flexible=True, each=6)
        else:
            partition_count -= 1
            at += 1
        left -= partition_count
        if left < 0:
            raise too_many_elements()
        partitions = []
        for _ in range(partition_count):
            index, size = _INDEX_BYTE.unpack_from(view, at)
            at += 5
            if size > 0x7F:
                size, at = read_unsigned(view, at - 1)
            records = None
            if size:
                after = at + size - 1
                records = view[at:after]
                at = after
            start = None
            if view[at]:
                tagged, at = read_tags(view, at)
                start = _conditional_start(tagged)
            else:
                at += 1
            partitions.append(_NEW(ProducePartition, (index, records, start)))
        at = skip_tags(view, at)
        topics.append(_NEW(ProduceTopic, (name, partitions)))
    # A length that lies has put `at` behind the end, which the caller sees: the views made on the way cost nothing.
    return _NEW(ProduceRequest, (acks, timeout_ms, transactional_id, topics)), skip_tags(view, at)


def too_many_elements() -> MalformedFrame:
    """Return the error for a request of more topics and partitions than are taken."""
    return MalformedFrame(f"a Produce request of more than {MOST_ELEMENTS} topics and partitions: split it")


def encode_request(version: int, request: ProduceRequest) -> bytes:
    """Return the request's body. Raises `UnsupportedVersion`; `MalformedFrame` for a conditional append before version 9."""
    topics = [
        (name, [ProducePieces(index, None if records is None else (records,), start) for index, records, start in partitions])
        for name, partitions in request.topics
    ]
    return b"".join(encode_pieces(version, request.acks, request.timeout_ms, topics, transactional_id=request.transactional_id))


def encode_pieces(
    version: int,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[str, Sequence[ProducePieces]]],
    *,
    transactional_id: str | None = None,
) -> list[bytes | memoryview]:
    """Return a request's body as chunks to be sent in order, the pieces among them uncopied. Raises as `encode_request`."""
    flexible = _is_flexible(version)
    out: list[bytes | memoryview] = [
        string(transactional_id, flexible=flexible),
        _ACKS_TIMEOUT.pack(acks, timeout_ms),
        count(len(topics), flexible=flexible),
    ]
    for name, partitions in topics:
        out += (string(name, flexible=flexible), count(len(partitions), flexible=flexible))
        for index, pieces, start in partitions:
            size = -1 if pieces is None else sum(map(len, pieces))
            out += (INT.pack(index), count(size, flexible=flexible), *(pieces or ()))
            if flexible:
                out.append(NO_TAGS if start is None else tags([(MIRROR_TAG, LONG.pack(start))]))
            elif start is not None:
                raise MalformedFrame(f"a conditional append needs Produce version {FIRST_FLEXIBLE}, not {version}")
        if flexible:
            out.append(NO_TAGS)
    if flexible:
        out.append(NO_TAGS)
    return out


def encode_response(version: int, response: ProduceResponse) -> bytes:
    """Return the response's body. Raises `UnsupportedVersion`."""
    flexible = _is_flexible(version)
    out = [count(len(response.topics), flexible=flexible)]
    for name, partitions in response.topics:
        out += (string(name, flexible=flexible), count(len(partitions), flexible=flexible))
        for index, error_code, base_offset, appended_ms, log_start_offset, message, leader in partitions:
            if version < 5:
                out.append(_ANSWER.pack(index, error_code, base_offset, appended_ms))
            elif version < 8:
                out.append(_ANSWER_5.pack(index, error_code, base_offset, appended_ms, log_start_offset))
            elif leader is not None and version >= FIRST_WITH_LEADERS:
                out += (
                    _ANSWER_5.pack(index, error_code, base_offset, appended_ms, log_start_offset),
                    count(0, flexible=True),
                    string(message, flexible=True),
                    tags([(LEADER_TAG, leader_bytes(leader))]),
                )
            elif message is None:
                if flexible:
                    out.append(_ANSWER_9.pack(index, error_code, base_offset, appended_ms, log_start_offset, 1, 0, 0))
                else:
                    out.append(_ANSWER_8.pack(index, error_code, base_offset, appended_ms, log_start_offset, 0, -1))
            else:
                out += (
                    _ANSWER_5.pack(index, error_code, base_offset, appended_ms, log_start_offset),
                    count(0, flexible=flexible),
                    string(message, flexible=flexible),
                )
                if flexible:
                    out.append(NO_TAGS)
        if flexible:
            out.append(NO_TAGS)
    out.append(INT.pack(response.throttle_time_ms))
    if response.endpoints and version >= FIRST_WITH_LEADERS:
        out.append(tags([(ENDPOINTS_TAG, endpoints_bytes(response.endpoints))]))
    elif flexible:
        out.append(NO_TAGS)
    return b"".join(out)


def decode_response(version: int, body: Body) -> ProduceResponse:
    """Return the response; a record error's message is in for a missing general one. Raises as `decode_request` does."""
    flexible = _is_flexible(version)
    view = memoryview(body)
    try:
        topic_count, at = read_count(view, 0, flexible=flexible, each=3 if flexible else 6)
        topics = []
        for _ in range(topic_count):
            name, at = read_name(view, at, flexible=flexible)
            partition_count, at = read_count(view, at, flexible=flexible, each=_ANSWER.size)
            partitions = []
            for _ in range(partition_count):
                index, error_code, base_offset, appended_ms = _ANSWER.unpack_from(view, at)
                at += _ANSWER.size
                log_start_offset, message = -1, None
                if version >= 5:
                    log_start_offset = LONG.unpack_from(view, at)[0]
                    at += 8
                if version >= 8:
                    message, at = _read_error(view, at, flexible)
                partitions.append(
                    ProduceResponsePartition(index, error_code, base_offset, appended_ms, log_start_offset, message)
                )
            if flexible:
                at = skip_tags(view, at)
            topics.append(ProduceResponseTopic(name, partitions))
        throttle_ms: int = INT.unpack_from(view, at)[0]
        at += 4
        if flexible:
            at = skip_tags(view, at)
    except (struct.error, IndexError):
        raise MalformedFrame(f"a Produce v{version} response of {len(view)} bytes is cut") from None
    ends_at(view, at, f"a Produce v{version} response")
    return ProduceResponse(topics, throttle_ms)


def _read_error(view: memoryview, at: int, flexible: bool) -> tuple[str | None, int]:
    """Read the tail of a partition's answer from version 8 on: record errors, message, tags."""
    first: str | None = None
    number, at = read_count(view, at, flexible=flexible, each=6)
    for _ in range(number):
        one, at = read_string(view, at + 4, flexible=flexible)
        first = first or one
        if flexible:
            at = skip_tags(view, at)
    message, at = read_string(view, at, flexible=flexible)
    if flexible:
        at = skip_tags(view, at)
    return message or first, at


def _conditional_start(tagged: dict[int, memoryview]) -> int | None:
    value = tagged.get(MIRROR_TAG)
    if value is None:
        return None
    if len(value) != LONG.size:
        raise MalformedFrame(
            f"tag {MIRROR_TAG} of a partition has {len(value)} bytes: it is an int64, the source's log start offset"
        )
    start: int = LONG.unpack(value)[0]
    return start


def _is_flexible(version: int) -> bool:
    if not MIN_VERSION <= version <= MAX_SERVED:
        raise UnsupportedVersion(
            f"Produce version {version} is not spoken here, {MIN_VERSION} to {MAX_SERVED} are: older ones have no batches",
            api_key=API_KEY,
            version=version,
        )
    return version >= FIRST_FLEXIBLE


__all__ = [
    "API_KEY",
    "FIRST_FLEXIBLE",
    "MAX_SERVED",
    "MAX_VERSION",
    "MIN_VERSION",
    "MIRROR_TAG",
    "ProducePartition",
    "ProducePieces",
    "ProduceRequest",
    "ProduceResponse",
    "ProduceResponsePartition",
    "ProduceResponseTopic",
    "ProduceTopic",
    "decode_request",
    "decode_response",
    "encode_pieces",
    "encode_request",
    "encode_response",
]
