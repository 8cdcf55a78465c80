"""The messages between replicas, on the listener for brokers. Pure. The requests have Kafka's frame and header, and keys of ours.

    tell (key 20001, no response)   broker int32 · start number int64 · connection int32 · count int32 · [fetch]
    fetch       topic id 16 · partition int32 · leader epoch int32 · fetch, written, flushed, start offset int64 each ·
                last epoch int32 · last CRC int64 · damaged int8 · memory life, disk life: int16 length, bytes
    poll (key 20002)                broker int32 · start number int64 · connection int32
    response    count int32 · [answer or refusal]
    refusal     0 int8 · topic id 16 · partition int32 · leader epoch int32
    answer      1 int8 · topic id 16 · partition int32 · leader epoch int32 · leader int32 · fetch offset, high watermark,
                log start int64 each · epochs: int32 count, [epoch int32 · start int64] · gaps: int32 count,
                [begin int64 · end int64] · batches: int32 length, bytes as they are in the leader's log

A follower tells what it has and wants; the leader answers the poll with what there is for all of the follower's partitions. Two
connections, so that an acknowledgement never waits behind a poll.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from ...wire.errors import MalformedFrame
from ..replication.facts import ReplicaFetch
from ..replication.lives import Lives
from ..replication.state import Epochs, EpochStart

TELL_KEY, POLL_KEY, VERSION = 20_001, 20_002, 0
MOST_FETCHES = 5_000
"""In one message; more are sent in several."""
MOST_LISTED = 100_000
"""Epochs or gaps of one answer."""

_FROM = struct.Struct(">iqi")
_COUNT = struct.Struct(">i")
_FETCH = struct.Struct(">16siiqqqqiqb")
_LENGTH = struct.Struct(">h")
_HEAD = struct.Struct(">b16sii")
_ANSWER = struct.Struct(">iqqq")
_EPOCH = struct.Struct(">iq")
_GAP = struct.Struct(">qq")

Key = tuple[UUID, int]


class Sender(NamedTuple):
    """Which process speaks, and on which of its connections."""

    broker_id: int
    start_number: int
    connection: int
    """Counted by the follower; a new one begins after a failure."""


class Answer(NamedTuple):
    """A leader's answer, its batches as bytes."""

    key: Key
    leader: int
    leader_epoch: int
    fetch_offset: int
    high_watermark: int
    log_start_offset: int
    epochs: Epochs
    gaps: tuple[tuple[int, int], ...]
    batches: memoryview


class Refusal(NamedTuple):
    """A leader refuses a fetch, and says in which epoch it leads, 0 for none."""

    key: Key
    leader_epoch: int


def topic_word(topic_id: UUID) -> str:
    """Return a topic's id as the machine has it."""
    return topic_id.hex


def encode_tell(sender: Sender, fetches: Sequence[tuple[Key, ReplicaFetch]]) -> bytes:
    parts = [_FROM.pack(*sender), _COUNT.pack(len(fetches))]
    for (topic_id, partition), fetch in fetches:
        memory, disk = fetch.lives.memory.encode(), fetch.lives.disk.encode()
        parts += (
            _FETCH.pack(
                topic_id.bytes,
                partition,
                fetch.leader_epoch,
                fetch.fetch_offset,
                fetch.written_offset,
                fetch.flushed_offset,
                fetch.log_start_offset,
                fetch.last_epoch,
                fetch.last_crc,
                fetch.is_damaged,
            ),
            _LENGTH.pack(len(memory)),
            memory,
            _LENGTH.pack(len(disk)),
            disk,
        )
    return b"".join(parts)


def decode_tell(body: memoryview) -> tuple[Sender, list[tuple[Key, ReplicaFetch]]]:
    """Return who tells, and what. Raises MalformedFrame."""
    try:
        sender = Sender(*_FROM.unpack_from(body))
        (count,) = _COUNT.unpack_from(body, _FROM.size)
        if not 0 <= count <= MOST_FETCHES:
            raise MalformedFrame(f"{count} fetches of replicas in one message: at most {MOST_FETCHES} are taken")
        at = _FROM.size + _COUNT.size
        found: list[tuple[Key, ReplicaFetch]] = []
        for _ in range(count):
            raw, partition, epoch, fetch, written, flushed, start, last_epoch, crc, damaged = _FETCH.unpack_from(body, at)
            memory, at = _text(body, at + _FETCH.size)
            disk, at = _text(body, at)
            topic_id = UUID(bytes=raw)
            one = ReplicaFetch(
                topic_id=topic_word(topic_id),
                broker_id=sender.broker_id,
                leader_epoch=epoch,
                lives=Lives(memory=memory, disk=disk),
                fetch_offset=fetch,
                written_offset=written,
                flushed_offset=flushed,
                log_start_offset=start,
                last_epoch=last_epoch,
                last_crc=crc,
                is_damaged=bool(damaged),
            )
            found.append(((topic_id, partition), one))
    except struct.error:
        raise MalformedFrame(f"a message of a replica of {len(body)} bytes is cut") from None
    return sender, found


def _text(body: memoryview, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(body, at)
    end = at + _LENGTH.size + length
    if length < 0 or end > len(body):
        raise MalformedFrame("a life in a message of a replica is cut")
    return str(body[at + _LENGTH.size : end], "utf-8", "replace"), end


def encode_poll(sender: Sender) -> bytes:
    return _FROM.pack(*sender)


def decode_poll(body: memoryview) -> Sender:
    """Raises MalformedFrame."""
    try:
        return Sender(*_FROM.unpack_from(body))
    except struct.error:
        raise MalformedFrame(f"a poll of a replica of {len(body)} bytes is cut") from None


def encode_refusal(refusal: Refusal) -> bytes:
    (topic_id, partition), epoch = refusal
    return _HEAD.pack(0, topic_id.bytes, partition, epoch)


def encode_answer(answer: Answer) -> bytes:
    (topic_id, partition), gaps = answer.key, answer.gaps
    return b"".join(
        (
            _HEAD.pack(1, topic_id.bytes, partition, answer.leader_epoch),
            _ANSWER.pack(answer.leader, answer.fetch_offset, answer.high_watermark, answer.log_start_offset),
            _COUNT.pack(len(answer.epochs)),
            *(_EPOCH.pack(each.leader_epoch, each.start_offset) for each in answer.epochs),
            _COUNT.pack(len(gaps)),
            *(_GAP.pack(*each) for each in gaps),
            _COUNT.pack(len(answer.batches)),
            answer.batches,
        )
    )


def encode_response(messages: Sequence[bytes]) -> bytes:
    return _COUNT.pack(len(messages)) + b"".join(messages)


def decode_response(body: memoryview) -> Iterator[Answer | Refusal]:
    """Yield the answers and refusals. Raises MalformedFrame."""
    try:
        (count,) = _COUNT.unpack_from(body)
        at = _COUNT.size
        for _ in range(count):
            kind, raw, partition, epoch = _HEAD.unpack_from(body, at)
            at += _HEAD.size
            key = (UUID(bytes=raw), partition)
            if kind == 0:
                yield Refusal(key, epoch)
                continue
            leader, fetch_offset, high_watermark, start = _ANSWER.unpack_from(body, at)
            rows, at = _rows(body, at + _ANSWER.size, _EPOCH)
            gaps, at = _rows(body, at, _GAP)
            (length,) = _COUNT.unpack_from(body, at)
            at += _COUNT.size
            if length < 0 or at + length > len(body):
                raise MalformedFrame(f"{length} bytes of batches in an answer to a replica of {len(body)} bytes")
            epochs = tuple(EpochStart(leader_epoch=each, start_offset=begin) for each, begin in rows)
            batches = body[at : at + length]
            at += length
            yield Answer(key, leader, epoch, fetch_offset, high_watermark, start, epochs, tuple(gaps), batches)
    except struct.error:
        raise MalformedFrame(f"an answer to a replica of {len(body)} bytes is cut") from None


def _rows(body: memoryview, at: int, row: struct.Struct) -> tuple[list[tuple[int, int]], int]:
    (count,) = _COUNT.unpack_from(body, at)
    if not 0 <= count <= MOST_LISTED:
        raise MalformedFrame(f"{count} rows in an answer to a replica")
    at += _COUNT.size
    found: list[tuple[int, int]] = []
    for _ in range(count):
        first, second = row.unpack_from(body, at)
        found.append((first, second))
        at += row.size
    return found, at
