"""What successive Produce requests have in common, so that it is decoded once. For `produce_run`.

`RequestTemplate`: for requests to one topic. `BatchLayout`: for requests of one length. `PartitionResponse`: the response to an
append to one partition.

    size int32, key int16 = 0, version int16 | correlation id | prefix: client id … topic, count of partitions = 1
    | partition int32 | lead: records length, base offset int64, length int32, leader epoch int32, magic int8 | CRC int32
    | kind: attributes int16, last offset delta int32 | base timestamp int64 | maximum timestamp int64
    | producer id int64, epoch int16, sequence int32 | record count int32 | records | no tags (9 on)
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from ...wire.batch.batch_header import HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC
from ...wire.errors import WireError
from ...wire.messages import produce
from ...wire.primitives import INT, count, read_name, string
from ..network.request_header import FIXED_HEADER, body_start
from ..partitions.partition import Fault, Partition
from .batch_rules import fault_of

LONGEST_PREFIX = 1_024
"""The general path takes a request whose client id and topic are longer together."""

_LEAD = struct.Struct(">qiib")
"""Base offset, length, leader epoch, magic: the beginning of a batch, up to its CRC."""
_KIND = struct.Struct(">Hi")
PLACED = struct.Struct(">qiibI")
"""A batch's first 21 bytes. They include the twelve that a broker sets. The CRC covers all bytes behind them."""
_HEAD = struct.Struct(">ii")
_API = struct.Struct(">hh")
_LARGEST_INT32 = (1 << 31) - 1


class BatchLayout(NamedTuple):
    """What requests have in common when they have the same length and the same bytes up to the CRC."""

    word: bytes
    lead: bytes
    kind: bytes
    frame_bytes: int
    size_bytes: int
    """The batch's size."""
    record_count: int
    """By the last offset delta."""


NO_LAYOUT = BatchLayout(b"", b"", b"", 0, 0, 0)


class PartitionResponse:
    """A partition, and the response to an append to it in one version."""

    __slots__ = ("_log_start_offset", "_ready", "flexible", "partition", "version")

    def __init__(self, partition: Partition, version: int) -> None:
        self.partition = partition
        self.version = version
        self.flexible = version >= produce.FIRST_FLEXIBLE
        self._log_start_offset: int | None = None
        self._ready: tuple[Callable[..., bytes], int, bytes, bytes] = (bytes, 0, b"", b"")

    def ready(self) -> tuple[Callable[..., bytes], int, bytes, bytes]:
        """Return a function that packs a response (size, correlation id, middle, base offset, rest), and its size, middle and
        rest."""
        log_start_offset = self.partition.log.log_start_offset
        if log_start_offset != self._log_start_offset:
            flexible, partition = self.flexible, self.partition
            body = self._body(0, log_start_offset, None)
            at = 2 * len(count(1, flexible=flexible)) + len(string(partition.topic, flexible=flexible)) + 4 + 2
            header = b"\0" if flexible else b""
            middle, rest = header + body[:at], body[at + 8 :]
            self._ready = (struct.Struct(f">ii{len(middle)}sq{len(rest)}s").pack, 4 + len(header) + len(body), middle, rest)
            self._log_start_offset = log_start_offset
        return self._ready

    def answer(self, correlation_id: int, base_offset: int) -> bytes:
        """Return the response to one request."""
        pack, size, middle, rest = self.ready()
        return pack(size, correlation_id, middle, base_offset, rest)

    def refusal(self, correlation_id: int, fault: Fault) -> bytes:
        """Return the response to a request whose batch was appended and is not acknowledged."""
        code, reason = fault
        body = self._body(code, -1, reason)
        header = b"\0" if self.flexible else b""
        return _HEAD.pack(4 + len(header) + len(body), correlation_id) + header + body

    def _body(self, error_code: int, log_start_offset: int, message: str | None) -> bytes:
        one = produce.ProduceResponsePartition(self.partition.index, error_code, -1, -1, log_start_offset, message)
        return produce.encode_response(
            self.version, produce.ProduceResponse([produce.ProduceResponseTopic(self.partition.topic, [one])])
        )


Key = tuple[int, int, bytes]
"""The version, the size of the records' length field, and all bytes from the client id to the count of partitions."""


class RequestTemplate:
    """What requests to one topic have in common when they have the same bytes up to the partition."""

    __slots__ = ("acks", "layout", "length_bytes", "prefix", "responses", "size", "timeout_ms", "topic", "unpack", "version")

    def __init__(self, key: Key, topic: str, acks: int, timeout_ms: int, responses: dict[int, PartitionResponse]) -> None:
        self.version, self.length_bytes, self.prefix = key
        self.topic = topic
        self.acks, self.timeout_ms = acks, timeout_ms
        self.responses = responses
        layout = struct.Struct(f">8si{len(self.prefix)}si{self.length_bytes + _LEAD.size}sI6s8xq14si")
        self.unpack = layout.unpack_from
        self.size = layout.size
        self.layout: BatchLayout | None = None


def read_template(buffer: memoryview, start: int, end: int) -> tuple[Key, str, int, int] | None:
    """Return the key, topic, acks and timeout of the request at `buffer[start]`, None when no run takes it or it is malformed."""
    try:
        return _read_template(buffer, start, end)
    except (WireError, struct.error, IndexError):
        return None


def _read_template(buffer: memoryview, start: int, end: int) -> tuple[Key, str, int, int] | None:
    size, _, version, _, client_id_length = FIXED_HEADER.unpack_from(buffer, start)
    frame = buffer[start : min(start + 4 + size, end)]
    if not produce.MIN_VERSION <= version <= produce.MAX_SERVED:
        return None
    flexible = version >= produce.FIRST_FLEXIBLE
    at = body_start(frame, client_id_length, flexible=flexible)
    one, none = count(1, flexible=flexible), string(None, flexible=flexible)
    acks_at = at + len(none)
    topics_at = acks_at + 6
    acks = int.from_bytes(frame[acks_at : acks_at + 2], "big", signed=True)
    timeout_ms = int.from_bytes(frame[acks_at + 2 : topics_at], "big", signed=True)
    if frame[at:acks_at] != none or acks not in (-1, 0, 1) or frame[topics_at : topics_at + len(one)] != one:
        return None
    topic, at = read_name(frame, topics_at + len(one), flexible=flexible)
    if frame[at : at + len(one)] != one:
        return None
    at += len(one)
    length_bytes = 4
    if flexible:
        length_bytes = 1
        while frame[at + 4 + length_bytes - 1] > 0x7F:
            length_bytes += 1
    if at > LONGEST_PREFIX or length_bytes > 4:
        return None
    return (version, length_bytes, bytes(frame[12:at])), topic, acks, timeout_ms


def layout_of(template: RequestTemplate, word: bytes, lead: bytes, kind: bytes) -> BatchLayout | None:
    """Return the layout of a request by its first bytes, None when no run takes it."""
    flexible = template.version >= produce.FIRST_FLEXIBLE
    base_offset, length, _, magic = _LEAD.unpack_from(lead, template.length_bytes)
    size_bytes = length + LENGTH_PREFIX_SIZE
    attributes, delta = _KIND.unpack(kind)
    record_count = delta + 1
    frame_bytes = template.size - HEADER_SIZE + size_bytes + (3 if flexible else 0)
    if (
        magic != MAGIC
        or base_offset < 0
        or size_bytes < HEADER_SIZE
        or record_count > size_bytes  # a compressed batch with more records than bytes leaves a hole: only the general path can
        or frame_bytes - 4 > _LARGEST_INT32
        or word != INT.pack(frame_bytes - 4) + _API.pack(produce.API_KEY, template.version)
        or lead[: template.length_bytes] != count(size_bytes, flexible=flexible)
        or fault_of(attributes, size_bytes, record_count, delta, of_mirror=False) is not None
    ):
        return None
    return BatchLayout(word, lead, kind, frame_bytes, size_bytes, record_count)
