"""The five codecs of Kafka's record batches. Knows nothing of batches. Source: Kafka's `CompressionType`; the frame formats' own
pages.

Snappy is written in the frame of the xerial library, as the Java client writes it, and read in that frame or raw, as librdkafka
and others write it. LZ4 is the LZ4 frame format. Data from outside is unpacked up to a bound.
"""

import zlib
from enum import IntEnum

import cramjam

from ..errors import CorruptBatch, WireError

_Bytes = bytes | bytearray | memoryview

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK_BYTES = 32 * 1024
_FIRST_GUESS_BYTES = 64 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_GZIP_SLICE_BYTES = 4096


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Bomb(CorruptBatch):
    """Compressed data that would unpack to more than the reader allows. `max_bytes` is the bound."""

    def __init__(self, message: str, *, max_bytes: int) -> None:
        super().__init__(message)
        self.max_bytes = max_bytes


def compress(codec: Codec, data: _Bytes) -> bytes:
    """Return `data` in the codec's form, readable by every Kafka client."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP_WINDOW)
            return packer.compress(data) + packer.flush()
        case Codec.SNAPPY:
            return _to_xerial(memoryview(data))
        case Codec.LZ4:
            # Kafka's own reader takes independent blocks only; the library links them by default, and librdkafka does not mind.
            frame = cramjam.lz4.Compressor(block_linked=False)
            frame.compress(bytes(data))
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, 3))
    raise WireError(f"cannot compress with codec {codec!r}: Kafka knows 0 (none) to 4 (zstd)")


def decompress(codec: Codec, data: _Bytes, *, max_bytes: int) -> bytes:
    """Return the data that `compress` was given. Raises `CorruptBatch` for data in another form, `Bomb` beyond `max_bytes`."""
    try:
        match codec:
            case Codec.NONE:
                if len(data) > max_bytes:
                    raise _bomb(codec, max_bytes)
                return bytes(data)
            case Codec.GZIP:
                return _from_gzip(data, max_bytes)
            case Codec.SNAPPY:
                return _from_snappy(memoryview(data), max_bytes)
            case Codec.LZ4:
                return _grown(codec, data, max_bytes)
            case Codec.ZSTD:
                return _grown(codec, data, max_bytes)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise CorruptBatch(f"cannot unpack {len(data)} bytes of {codec.name.lower()}: {error}") from error
    raise CorruptBatch(f"codec {codec!r} is none that Kafka knows (0 none to 4 zstd)")


def _bomb(codec: Codec, max_bytes: int) -> Bomb:
    return Bomb(
        f"{codec.name.lower()} data unpacks to more than {max_bytes} bytes: refused; raise the reader's bound if it is meant",
        max_bytes=max_bytes,
    )


def _from_gzip(data: _Bytes, max_bytes: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    room, at = max_bytes, 0
    while at < len(view):
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        # What is behind a member's end is copied. So each member is fed in slices that begin small: else a body of very many
        # tiny members would be copied once for each of them.
        slice_bytes = _GZIP_SLICE_BYTES
        while not unpacker.eof:
            piece = view[at : at + slice_bytes]
            if not piece:
                raise CorruptBatch(f"cannot unpack {len(data)} bytes of gzip: the data ends before its stream does")
            part = unpacker.decompress(piece, room + 1)
            if len(part) > room:
                raise _bomb(Codec.GZIP, max_bytes)
            parts.append(part)
            room -= len(part)
            at += len(piece)
            slice_bytes *= 2
        at -= len(unpacker.unused_data)
    return b"".join(parts)


def _grown(codec: Codec, data: _Bytes, max_bytes: int) -> bytes:
    """Unpack LZ4 or zstd into a buffer that grows eightfold until it fits or passes the bound.

    The sizes that these frames may announce are optional and the sender's word; a buffer of the bound's size costs 40 ms a batch.
    """
    unpack_into = cramjam.lz4.decompress_into if codec is Codec.LZ4 else cramjam.zstd.decompress_into
    packed = bytes(data)
    capacity = max(_FIRST_GUESS_BYTES, 8 * len(packed))
    while True:
        # One byte above the bound tells 'exactly the bound' from 'more'.
        unpacked = bytearray(min(capacity, max_bytes + 1))
        try:
            size = unpack_into(packed, unpacked)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise
            if len(unpacked) > max_bytes:
                raise _bomb(codec, max_bytes) from None
            capacity *= 8
            continue
        if size > max_bytes:
            raise _bomb(codec, max_bytes)
        return bytes(memoryview(unpacked)[:size])


def _to_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _from_snappy(data: memoryview, max_bytes: int) -> bytes:
    if data[:8] != _XERIAL_MAGIC:
        return _raw_snappy(data, max_bytes, max_bytes)
    parts: list[bytes] = []
    room = max_bytes
    at = len(_XERIAL_HEADER)
    if len(data) < at:
        raise CorruptBatch(f"cannot unpack {len(data)} bytes of snappy: cut inside the xerial header of {at} bytes")
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        block = data[at + 4 : at + 4 + size]
        if len(data) - at < 4 or len(block) < size:
            raise CorruptBatch(f"cannot unpack {len(data)} bytes of snappy: the block at byte {at} is cut")
        part = _raw_snappy(block, room, max_bytes)
        parts.append(part)
        room -= len(part)
        at += 4 + size
    return b"".join(parts)


def _raw_snappy(block: memoryview, room: int, max_bytes: int) -> bytes:
    packed = bytes(block)
    # The sender states the length in front: it is checked against the bound before anything is allocated.
    if cramjam.snappy.decompress_raw_len(packed) > room:
        raise _bomb(Codec.SNAPPY, max_bytes)
    return bytes(cramjam.snappy.decompress_raw(packed))
