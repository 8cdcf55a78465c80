"""What replicas ask each other about damage, on the listener for brokers (`asking.Peers`). Pure.

compare (key 20003)   kind int8 · topic id 16 · partition int32 · leader epoch int32 · from, to int64 each, then by kind
  0 digest            sum 16
  1 damaged           reason: int16 length, bytes          the leader says: serve this no more, and repair it
  2 lead              nothing                              the leader has damage: take over (from and to are 0)
response              state int8: 0 not here, 1 equal or done, 2 different; for 2:
                      batches: int32 count, [position, next offset int64 each · the first 21 bytes of the batch]
                      damaged: int32 count, [from, to int64 each · reason: int16 length, bytes]
read (key 20004)      topic id 16 · partition int32 · from, to int64 each
response              whole batches from `from` on as they are in the log, 1 MiB or one batch; empty: not here, or damaged too
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from ...wire.errors import MalformedFrame
from ..log import BadRange, RangeDigest
from ..log.segment.range_digest import HEAD_BYTES, SUM_BYTES, BatchDigest
from .messages import Key

COMPARE_KEY, READ_KEY = 20_003, 20_004
MOST_ROWS = 100_000
LONGEST_REASON_BYTES = 1_000

_COMPARE = struct.Struct(">b16siiqq")
_READ = struct.Struct(">16siqq")
_STATE = struct.Struct(">b")
_COUNT = struct.Struct(">i")
_BATCH = struct.Struct(f">qq{HEAD_BYTES}s")
_RANGE = struct.Struct(">qqh")
_LENGTH = struct.Struct(">h")


class Kind(IntEnum):
    DIGEST = 0
    DAMAGED = 1
    LEAD = 2


class State(IntEnum):
    NOT_HERE = 0
    SAME = 1
    """Or done."""
    DIFFERENT = 2


class Compare(NamedTuple):
    """What a leader asks or says of a range."""

    kind: Kind
    key: Key
    leader_epoch: int
    from_offset: int
    to_offset: int
    sum: bytes = b""
    reason: str = ""


class Read(NamedTuple):
    """What a damaged replica asks for."""

    key: Key
    from_offset: int
    to_offset: int


def encode_compare(asked: Compare) -> bytes:
    (topic_id, partition), reason = asked.key, asked.reason.encode()[:LONGEST_REASON_BYTES]
    head = _COMPARE.pack(asked.kind, topic_id.bytes, partition, asked.leader_epoch, asked.from_offset, asked.to_offset)
    if asked.kind is Kind.DIGEST:
        return head + asked.sum
    return head + _LENGTH.pack(len(reason)) + reason if asked.kind is Kind.DAMAGED else head


def decode_compare(body: memoryview) -> Compare:
    """Raises MalformedFrame."""
    try:
        kind, raw, partition, epoch, from_offset, to_offset = _COMPARE.unpack_from(body)
        rest = body[_COMPARE.size :]
        asked = Compare(Kind(kind), (UUID(bytes=raw), partition), epoch, from_offset, to_offset)
        if asked.kind is Kind.DIGEST:
            if len(rest) != SUM_BYTES:
                raise MalformedFrame(f"a sum of {len(rest)} bytes in a comparison of replicas")
            return asked._replace(sum=bytes(rest))
        return asked._replace(reason=_text(rest, 0)[0]) if asked.kind is Kind.DAMAGED else asked
    except (struct.error, ValueError):
        raise MalformedFrame(f"a comparison of replicas of {len(body)} bytes cannot be read") from None


def encode_state(state: State) -> bytes:
    return _STATE.pack(state)


def encode_digest(digest: RangeDigest) -> bytes:
    parts = [_STATE.pack(State.DIFFERENT), _COUNT.pack(len(digest.batches))]
    parts += (_BATCH.pack(*batch) for batch in digest.batches)
    parts.append(_COUNT.pack(len(digest.damaged)))
    for bad in digest.damaged:
        reason = bad.reason.encode()[:LONGEST_REASON_BYTES]
        parts += (_RANGE.pack(bad.from_offset, bad.to_offset, len(reason)), reason)
    return b"".join(parts)


def decode_compared(body: bytes) -> tuple[State, RangeDigest | None]:
    """Return the state, and the digest where it is different. Raises MalformedFrame."""
    try:
        state = State(_STATE.unpack_from(body)[0])
        if state is not State.DIFFERENT:
            return state, None
        count, at = _count(body, _STATE.size)
        batches = []
        for _ in range(count):
            batches.append(BatchDigest(*_BATCH.unpack_from(body, at)))
            at += _BATCH.size
        count, at = _count(body, at)
        damaged = []
        for _ in range(count):
            from_offset, to_offset, _length = _RANGE.unpack_from(body, at)
            reason, at = _text(memoryview(body), at + _RANGE.size - _LENGTH.size)
            damaged.append(BadRange(from_offset, to_offset, reason))
        return state, RangeDigest(tuple(batches), tuple(damaged))
    except (struct.error, ValueError):
        raise MalformedFrame(f"a digest of a replica of {len(body)} bytes cannot be read") from None


def encode_read(asked: Read) -> bytes:
    (topic_id, partition), from_offset, to_offset = asked
    return _READ.pack(topic_id.bytes, partition, from_offset, to_offset)


def decode_read(body: memoryview) -> Read:
    """Raises MalformedFrame."""
    try:
        raw, partition, from_offset, to_offset = _READ.unpack(body)
    except struct.error:
        raise MalformedFrame(f"a question for batches of a replica of {len(body)} bytes") from None
    return Read((UUID(bytes=raw), partition), from_offset, to_offset)


def _count(body: Sequence[int], at: int) -> tuple[int, int]:
    (count,) = _COUNT.unpack_from(body, at)  # type: ignore[arg-type]  # bytes
    if not 0 <= count <= MOST_ROWS:
        raise MalformedFrame(f"{count} rows in a digest of a replica: at most {MOST_ROWS} are taken")
    return count, at + _COUNT.size


def _text(body: memoryview, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(body, at)
    end = at + _LENGTH.size + length
    if length < 0 or end > len(body):
        raise MalformedFrame("a reason in a message of a replica is cut")
    return str(body[at + _LENGTH.size : end], "utf-8", "replace"), end
