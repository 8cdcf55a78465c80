"""Fetch (key 1), request and response, read and written by hand: the way out for every byte of the log. Versions 4 to 16.

From 13 on a topic is named by its id, 16 bytes, in the place of its name. Version 14 has no new field. Version 15 moves the
replica's id, which consumers do not have, into tag 1. Version 16 has two tagged fields in the response of a broker that does not
lead (KIP-951): tag 1 of a partition is its leader, tag 0 of the response has the leaders' addresses. Source: FetchRequest.json,
FetchResponse.json.

    request    (to 14) replica id · max wait · min bytes · max bytes · isolation int8 · (7+) session id, epoch
               · topics [ name · partitions [ index · (9+) leader epoch · fetch offset int64 · (12+) last fetched epoch
               · (5+) log start offset · partition max bytes ] ] · (7+) forgotten topics [ name · [index] ] · (11+) rack
    response   throttle · (7+) error int16, session id · topics [ name · partitions [ index · error int16 · high watermark
               · last stable offset · (5+) log start offset · aborted [ producer id · first offset ] · (11+) preferred replica
               · records bytes ] ]

Hot: one read and one write for each fetch. A server's records may be anything with a length (a slice of a file): they are passed
through.
"""

import struct
from collections.abc import Mapping, Sequence, Sized
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
    read_bytes,
    read_count,
    read_name,
    read_tags,
    skip_tags,
    string,
    tags,
)
from ..varint import unsigned
from .leader_hints import endpoints_bytes, leader_bytes

API_KEY = 1
MIN_VERSION = 4
MAX_VERSION = 12
"""Spoken by our clients."""
MAX_SERVED = 16
FIRST_FLEXIBLE = 12
FIRST_WITH_IDS = 13
FIRST_WITH_REPLICA_STATE = 15
FIRST_WITH_LEADERS = 16
ID_BYTES = 16
REPLICA_STATE_TAG = 1
LEADER_TAG = 1
ENDPOINTS_TAG = 0

TopicKey = str | bytes
"""A topic's name; in versions with ids its id, `ID_BYTES` long."""


class FetchPartition(NamedTuple):
    """What is wanted of one partition. All of this file's are named tuples: one of each is made on each request."""

    index: int  # type: ignore[assignment]  # Kafka's own word; hides tuple.index, which no caller uses on a message
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    log_start_offset: int = -1
    last_fetched_epoch: int = -1


class FetchTopic(NamedTuple):
    name: TopicKey
    partitions: Sequence[FetchPartition]


class FetchRequest(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: Sequence[FetchTopic]
    isolation_level: int = 0
    """0 read uncommitted, 1 read committed."""
    session_id: int = 0
    session_epoch: int = -1
    """-1: no session."""
    replica_id: int = -1
    """-1: a consumer."""
    forgotten: Sequence[tuple[TopicKey, Sequence[int]]] = ()
    rack_id: str = ""


class FetchResponsePartition(NamedTuple):
    index: int  # type: ignore[assignment]  # Kafka's own word; hides tuple.index, which no caller uses on a message
    error_code: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sized | None = b""
    """To write: anything with a length, None for null. Read: a memoryview (or None)."""
    aborted: Sequence[tuple[int, int]] | None = None
    """Aborted transactions as (producer id, first offset), None for null."""
    preferred_read_replica: int = -1
    current_leader: tuple[int, int] | None = None
    """Broker and leader epoch, where this broker does not lead and knows who does. Written from version 16 on, never read."""


class FetchResponseTopic(NamedTuple):
    name: TopicKey
    partitions: Sequence[FetchResponsePartition]


class FetchResponse(NamedTuple):
    topics: Sequence[FetchResponseTopic]
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    endpoints: Mapping[int, tuple[str, int]] = MappingProxyType({})
    """Host and port of the current leaders, by broker. Written from version 16 on, never read."""


_HEAD = struct.Struct(">iiiib")
_HEAD_15 = struct.Struct(">iiib")
_REPLICA_STATE = struct.Struct(">iq")
_SESSION = struct.Struct(">ii")
_WANTED_4 = struct.Struct(">iqi")
_WANTED_5 = struct.Struct(">iqqi")
_WANTED_9 = struct.Struct(">iiqqi")
_WANTED_12 = struct.Struct(">iiqiqi")
_ERROR_SESSION = struct.Struct(">hi")
_ANSWER_4 = struct.Struct(">ihqq")
_ANSWER_5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_PLAIN = {
    4: struct.Struct(">ihqqi"),
    **dict.fromkeys(range(5, 11), struct.Struct(">ihqqqi")),
    11: struct.Struct(">ihqqqii"),
    **dict.fromkeys(range(12, 17), struct.Struct(">ihqqqbi")),
}
"""index, error, high watermark, last stable offset, (5+) log start, aborted null, (11+) no preferred replica."""
_SIZE = struct.Struct(">i")
_LONGEST_SHORT = 1 << 21
_SHORT_SIZE = struct.Struct("BBB")


def decode_request(version: int, body: Body) -> FetchRequest:
    """Return the request; fields that the version lacks have their defaults. Raises `UnsupportedVersion`, `MalformedFrame`."""
    flexible = _is_flexible(version)
    view = memoryview(body)
    try:
        if version >= FIRST_WITH_REPLICA_STATE:
            replica_id = -1
            max_wait_ms, min_bytes, max_bytes, isolation_level = _HEAD_15.unpack_from(view)
            at = _HEAD_15.size
        else:
            replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _HEAD.unpack_from(view)
            at = _HEAD.size
        session_id, session_epoch = 0, -1
        if version >= 7:
            session_id, session_epoch = _SESSION.unpack_from(view, at)
            at += 8
        topic_count, at = read_count(view, at, flexible=flexible, each=3 if flexible else 6)
        topics = []
        for _ in range(topic_count):
            name, at = _read_topic(version, view, at)
            partition_count, at = read_count(view, at, flexible=flexible, each=16)
            partitions = []
            for _ in range(partition_count):
                partition, at = _read_wanted(version, view, at)
                partitions.append(partition)
            if flexible:
                at = skip_tags(view, at)
            topics.append(FetchTopic(name, partitions))
        forgotten: list[tuple[TopicKey, Sequence[int]]] = []
        if version >= 7:
            topic_count, at = read_count(view, at, flexible=flexible, each=3 if flexible else 6)
            for _ in range(topic_count):
                name, at = _read_topic(version, view, at)
                partition_count, at = read_count(view, at, flexible=flexible, each=4)
                partition_count = max(0, partition_count)
                forgotten.append((name, struct.unpack_from(f">{partition_count}i", view, at)))
                at += 4 * partition_count
                if flexible:
                    at = skip_tags(view, at)
        rack_id = ""
        if version >= 11:
            rack_id, at = read_name(view, at, flexible=flexible)
        if version >= FIRST_WITH_REPLICA_STATE and view[at]:
            tagged, at = read_tags(view, at)
            if REPLICA_STATE_TAG in tagged:
                replica_id, _ = _REPLICA_STATE.unpack_from(tagged[REPLICA_STATE_TAG])
        elif flexible:
            at = skip_tags(view, at)
    except (struct.error, IndexError):
        raise MalformedFrame(f"a Fetch v{version} request of {len(view)} bytes is cut") from None
    ends_at(view, at, f"a Fetch v{version} request")
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        max_bytes,
        topics,
        isolation_level,
        session_id,
        session_epoch,
        replica_id,
        forgotten,
        rack_id,
    )


def _read_topic(version: int, view: memoryview, at: int) -> tuple[TopicKey, int]:
    if version < FIRST_WITH_IDS:
        return read_name(view, at, flexible=version >= FIRST_FLEXIBLE)
    topic_id = bytes(view[at : at + ID_BYTES])
    if len(topic_id) < ID_BYTES:
        raise IndexError
    return topic_id, at + ID_BYTES


def _topic(version: int, topic: TopicKey) -> bytes:
    if isinstance(topic, str):
        if version >= FIRST_WITH_IDS:
            raise MalformedFrame(f"Fetch v{version} names topics by their ids, not by a name like {topic!r}")
        return string(topic, flexible=version >= FIRST_FLEXIBLE)
    if version < FIRST_WITH_IDS:
        raise MalformedFrame(f"Fetch v{version} names topics by their names, not by their ids")
    return topic


def _read_wanted(version: int, view: memoryview, at: int) -> tuple[FetchPartition, int]:
    epoch = last_epoch = log_start = -1
    if version >= 12:
        index, epoch, offset, last_epoch, log_start, most = _WANTED_12.unpack_from(view, at)
        return FetchPartition(index, offset, most, epoch, log_start, last_epoch), skip_tags(view, at + _WANTED_12.size)
    if version >= 9:
        index, epoch, offset, log_start, most = _WANTED_9.unpack_from(view, at)
        at += _WANTED_9.size
    elif version >= 5:
        index, offset, log_start, most = _WANTED_5.unpack_from(view, at)
        at += _WANTED_5.size
    else:
        index, offset, most = _WANTED_4.unpack_from(view, at)
        at += _WANTED_4.size
    return FetchPartition(index, offset, most, epoch, log_start, last_epoch), at


def encode_request(version: int, request: FetchRequest) -> bytes:
    """Return the request's body; fields that the version lacks are left out. Raises `UnsupportedVersion`."""
    flexible = _is_flexible(version)
    head = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    has_state = version >= FIRST_WITH_REPLICA_STATE
    out = [_HEAD_15.pack(*head) if has_state else _HEAD.pack(request.replica_id, *head)]
    if version >= 7:
        out.append(_SESSION.pack(request.session_id, request.session_epoch))
    out.append(count(len(request.topics), flexible=flexible))
    for name, partitions in request.topics:
        out += (_topic(version, name), count(len(partitions), flexible=flexible))
        for index, offset, most, epoch, log_start, last_epoch in partitions:
            if flexible:
                out += (_WANTED_12.pack(index, epoch, offset, last_epoch, log_start, most), NO_TAGS)
            elif version >= 9:
                out.append(_WANTED_9.pack(index, epoch, offset, log_start, most))
            elif version >= 5:
                out.append(_WANTED_5.pack(index, offset, log_start, most))
            else:
                out.append(_WANTED_4.pack(index, offset, most))
        if flexible:
            out.append(NO_TAGS)
    if version >= 7:
        out.append(count(len(request.forgotten), flexible=flexible))
        for name, indexes in request.forgotten:
            out += (_topic(version, name), count(len(indexes), flexible=flexible))
            out.append(struct.pack(f">{len(indexes)}i", *indexes))
            if flexible:
                out.append(NO_TAGS)
    if version >= 11:
        out.append(string(request.rack_id, flexible=flexible))
    if has_state and request.replica_id != -1:
        out.append(tags([(REPLICA_STATE_TAG, _REPLICA_STATE.pack(request.replica_id, -1) + NO_TAGS)]))
    elif flexible:
        out.append(NO_TAGS)
    return b"".join(out)


def encode_response(version: int, response: FetchResponse) -> list[Sized]:
    """Return the response's body as chunks to be sent in order: `bytes`, and between them the very `records` objects that were
    given.

    The sum of the chunks' `len` is the body's size. Empty records make no chunk. Raises `UnsupportedVersion`.
    """
    flexible = _is_flexible(version)
    chunks: list[Sized] = []
    out = bytearray(INT.pack(response.throttle_time_ms))
    if version >= 7:
        out += _ERROR_SESSION.pack(response.error_code, response.session_id)
    out += count(len(response.topics), flexible=flexible)
    for name, partitions in response.topics:
        out += _topic(version, name)
        out += count(len(partitions), flexible=flexible)
        for index, error_code, high_watermark, stable_offset, log_start_offset, records, aborted, replica, leader in partitions:
            size = -1 if records is None else len(records)
            if aborted is None and replica == -1:
                out += partition_front(version, index, error_code, high_watermark, stable_offset, log_start_offset, size)
            else:
                if version >= 5:
                    out += _ANSWER_5.pack(index, error_code, high_watermark, stable_offset, log_start_offset)
                else:
                    out += _ANSWER_4.pack(index, error_code, high_watermark, stable_offset)
                out += _aborted(aborted, flexible)
                if version >= 11:
                    out += INT.pack(replica)
                out += unsigned(size + 1) if flexible else INT.pack(size)
            if size > 0 and records is not None:
                chunks += (bytes(out), records)
                out = bytearray()
            if leader is not None and version >= FIRST_WITH_LEADERS:
                out += tags([(LEADER_TAG, leader_bytes(leader))])
            elif flexible:
                out += NO_TAGS
        if flexible:
            out += NO_TAGS
    if response.endpoints and version >= FIRST_WITH_LEADERS:
        out += tags([(ENDPOINTS_TAG, endpoints_bytes(response.endpoints))])
    elif flexible:
        out += NO_TAGS
    if out:
        chunks.append(bytes(out))
    return chunks


def partition_front(
    version: int, index: int, error_code: int, high_watermark: int, stable_offset: int, log_start_offset: int, size: int
) -> bytes:
    """Return what a response says of one partition before its records: they have `size` bytes, -1 for null.

    For a partition without aborted transactions and preferred replica, which is every one of a server without transactions. Hot:
    once for each partition of a response.
    """
    if version >= FIRST_FLEXIBLE:
        size += 1
        if 1 << 14 <= size < _LONGEST_SHORT:
            length = _SHORT_SIZE.pack(size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14)
        else:
            length = unsigned(size)
        return _PLAIN[version].pack(index, error_code, high_watermark, stable_offset, log_start_offset, 0, -1) + length
    if version == 11:
        return _PLAIN[11].pack(index, error_code, high_watermark, stable_offset, log_start_offset, -1, -1) + _SIZE.pack(size)
    if version >= 5:
        return _PLAIN[version].pack(index, error_code, high_watermark, stable_offset, log_start_offset, -1) + _SIZE.pack(size)
    return _PLAIN[4].pack(index, error_code, high_watermark, stable_offset, -1) + _SIZE.pack(size)


def _aborted(aborted: Sequence[tuple[int, int]] | None, flexible: bool) -> bytes:
    if aborted is None:
        return b"\x00" if flexible else b"\xff\xff\xff\xff"
    tail = NO_TAGS if flexible else b""
    return count(len(aborted), flexible=flexible) + b"".join(_ABORTED.pack(*one) + tail for one in aborted)


def decode_response(version: int, body: Body) -> FetchResponse:
    """Return the response; records are views into `body`. Raises `UnsupportedVersion`, `MalformedFrame`."""
    flexible = _is_flexible(version)
    view = memoryview(body)
    try:
        throttle_ms: int = INT.unpack_from(view)[0]
        at = 4
        error_code = session_id = 0
        if version >= 7:
            error_code, session_id = _ERROR_SESSION.unpack_from(view, at)
            at += 6
        topic_count, at = read_count(view, at, flexible=flexible, each=3 if flexible else 6)
        topics = []
        for _ in range(topic_count):
            name, at = _read_topic(version, view, at)
            partition_count, at = read_count(view, at, flexible=flexible, each=_ANSWER_4.size)
            partitions = []
            for _ in range(partition_count):
                partition, at = _read_answer(version, view, at, flexible)
                partitions.append(partition)
            if flexible:
                at = skip_tags(view, at)
            topics.append(FetchResponseTopic(name, partitions))
        if flexible:
            at = skip_tags(view, at)
    except (struct.error, IndexError):
        raise MalformedFrame(f"a Fetch v{version} response of {len(view)} bytes is cut") from None
    ends_at(view, at, f"a Fetch v{version} response")
    return FetchResponse(topics, throttle_ms, error_code, session_id)


def _read_answer(version: int, view: memoryview, at: int, flexible: bool) -> tuple[FetchResponsePartition, int]:
    index, error_code, high_watermark, stable_offset = _ANSWER_4.unpack_from(view, at)
    at += _ANSWER_4.size
    log_start_offset = replica = -1
    if version >= 5:
        log_start_offset = LONG.unpack_from(view, at)[0]
        at += 8
    aborted: list[tuple[int, int]] | None = None
    number, at = read_count(view, at, flexible=flexible, each=_ABORTED.size)
    if number >= 0:
        aborted = []
        for _ in range(number):
            aborted.append(_ABORTED.unpack_from(view, at))
            at += _ABORTED.size
            if flexible:
                at = skip_tags(view, at)
    if version >= 11:
        replica = INT.unpack_from(view, at)[0]
        at += 4
    records, at = read_bytes(view, at, flexible=flexible)
    if flexible:
        at = skip_tags(view, at)
    answer = FetchResponsePartition(index, error_code, high_watermark, stable_offset, log_start_offset, records, aborted, replica)
    return answer, at


def _is_flexible(version: int) -> bool:
    if not MIN_VERSION <= version <= MAX_SERVED:
        raise UnsupportedVersion(
            f"Fetch version {version} is not spoken here, {MIN_VERSION} to {MAX_SERVED} are",
            api_key=API_KEY,
            version=version,
        )
    return version >= FIRST_FLEXIBLE
