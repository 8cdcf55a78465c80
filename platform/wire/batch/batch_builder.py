"""Making a batch from records. Source: Kafka's `DefaultRecordBatch`, `DefaultRecord`.

Decides nothing about size or time: the caller reads `size_bytes` and chooses when to build.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count

from ..errors import WireError
from ..varint import SHORT, size_of_unsigned, unsigned
from .batch_header import CRC_COVERS_FROM, HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC, TIMESTAMPS_BOUNDED
from .compression import Codec, compress
from .crc32c import crc32c

_PREFIX = struct.Struct(">qiibI")
_COVERED = struct.Struct(">Hiqqqhii")
_SHORT_COUNT = len(SHORT)
_SHORT_DELTAS = SHORT[::2]
_LONGEST_SPAN_MS = 1 << 62
_NULL = b"\x01"
_NO_HEADERS = b"\x00"
_NO_ATTRIBUTES = b"\x00"

_Pending = tuple[int, bytes | None, bytes | None, bytes]


class BatchBuilder:
    """Collects records and builds one batch of them. `append` and `build` are hot: once per record that a producer sends.

    The base timestamp is the lowest of the records' timestamps, and a bit says so: readers may count the batch by its header.
    """

    def __init__(
        self, codec: Codec = Codec.NONE, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1
    ) -> None:
        self._codec = codec
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence
        self._records: list[_Pending] = []
        self._payload_bytes = 0
        self._min_timestamp_ms = 0
        self._max_timestamp_ms = 0

    @property
    def record_count(self) -> int:
        return len(self._records)

    @property
    def min_timestamp_ms(self) -> int:
        """Return the lowest timestamp so far; 0 for no record."""
        return self._min_timestamp_ms

    @property
    def max_timestamp_ms(self) -> int:
        """Return the highest timestamp so far; 0 for no record."""
        return self._max_timestamp_ms

    @property
    def size_bytes(self) -> int:
        """Return an upper bound of the batch's size before compression. It is at most a few bytes a record too high."""
        record_count = len(self._records)
        span = size_of_unsigned((self._max_timestamp_ms - self._min_timestamp_ms) << 1)
        # No record is longer than all of them together.
        each = 1 + span + size_of_unsigned(record_count << 1) + size_of_unsigned((self._payload_bytes + 20) << 1)
        return HEADER_SIZE + self._payload_bytes + record_count * each

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> None:
        """Add a record with its event time (ms since the epoch). Keeps references to `key` and `value`, copies nothing."""
        records = self._records
        if not records:
            self._min_timestamp_ms = self._max_timestamp_ms = timestamp_ms
        elif timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp_ms
        elif timestamp_ms < self._min_timestamp_ms:
            self._min_timestamp_ms = timestamp_ms
        packed = _packed_headers(headers) if headers else _NO_HEADERS
        size = len(packed) + 10
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        self._payload_bytes += size
        records.append((timestamp_ms, key, value, packed))

    def build(self) -> bytes:
        """Return the batch, base offset 0, leader epoch -1, as a producer sends it. Raises `WireError` when it is empty."""
        if not self._records:
            raise WireError("a batch needs at least one record: append before building")
        return assemble(
            self._encoded,
            codec=self._codec,
            record_count=len(self._records),
            min_timestamp_ms=self._min_timestamp_ms,
            max_timestamp_ms=self._max_timestamp_ms,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._base_sequence,
        )

    def _encoded(self) -> bytes:
        base_ms = self._min_timestamp_ms
        short, limit = SHORT, _SHORT_COUNT
        join = b"".join
        out: list[bytes] = []
        put = out.append
        last_ms = -1
        # The bytes before the offset delta (attributes, timestamp delta) are made again only when the time changes.
        lead = b""
        for (timestamp_ms, key, value, headers), delta in zip(self._records, _deltas(), strict=False):
            if timestamp_ms != last_ms or not lead:
                last_ms = timestamp_ms
                # No delta is ever negative here, so zig-zag is a doubling.
                doubled_ms = (timestamp_ms - base_ms) << 1
                lead = _NO_ATTRIBUTES + (short[doubled_ms] if doubled_ms < limit else unsigned(doubled_ms))
            if value is None:
                value_size, value = _NULL, b""
            else:
                size = len(value) << 1
                value_size = short[size] if size < limit else unsigned(size)
            if key is None:
                body = join((lead, delta, _NULL, value_size, value, headers))
            else:
                size = len(key) << 1
                body = join((lead, delta, short[size] if size < limit else unsigned(size), key, value_size, value, headers))
            size = len(body) << 1
            put(short[size] if size < limit else unsigned(size))
            put(body)
        return join(out)


def assemble(
    records: Callable[[], bytes],
    *,
    codec: Codec,
    record_count: int,
    min_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> bytes:
    """Return the batch of `records()`, whose deltas are from `min_timestamp_ms`. Raises `WireError` for too long a span."""
    if max_timestamp_ms - min_timestamp_ms >= _LONGEST_SPAN_MS:
        raise WireError(f"timestamps {min_timestamp_ms} to {max_timestamp_ms} ms do not fit one batch: use ms since 1970")
    packed = records()
    if codec is not Codec.NONE:
        packed = compress(codec, packed)
    covered = _COVERED.pack(
        codec | TIMESTAMPS_BOUNDED,
        record_count - 1,
        min_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    crc = crc32c(packed, crc32c(covered))
    length = HEADER_SIZE - LENGTH_PREFIX_SIZE + len(packed)
    return b"".join((_PREFIX.pack(0, length, -1, MAGIC, crc), covered, packed))


def _deltas() -> Iterator[bytes]:
    """Yield the offset deltas 0, 1, 2, … as varints."""
    return chain(_SHORT_DELTAS, map(unsigned, count(2 * len(_SHORT_DELTAS), 2)))


def _packed_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [unsigned(len(headers) << 1)]
    for name, value in headers:
        encoded = name.encode()
        parts += (unsigned(len(encoded) << 1), encoded)
        parts += (_NULL,) if value is None else (unsigned(len(value) << 1), value)
    return b"".join(parts)


assert _PREFIX.size == CRC_COVERS_FROM
assert _PREFIX.size + _COVERED.size == HEADER_SIZE
