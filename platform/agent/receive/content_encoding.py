"""Bodies of requests that the client has compressed, unpacked up to a bound. Pure. Source: RFC 9110, 8.4; RFC 8878 (zstd).

One coding, `gzip` or `zstd`; `identity` says nothing. An unknown coding is refused before the body is read.
"""

from collections.abc import Sequence

from ...errors import HeadraceError
from ...wire.batch.compression import Bomb, Codec, decompress
from ...wire.errors import CorruptBatch

CODECS = {"gzip": Codec.GZIP, "x-gzip": Codec.GZIP, "zstd": Codec.ZSTD}
TAKEN = "gzip, zstd"
"""The value of `Accept-Encoding` in an answer that refuses another coding (RFC 9110, 15.5.16)."""


class EncodingRefused(HeadraceError):
    """The body cannot be taken: `status` is that of the answer."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def codec_of(values: Sequence[str]) -> Codec:
    """Return how the body is packed, by the values of all its headers `Content-Encoding`. Raises EncodingRefused (415)."""
    named = [word for value in values for part in value.split(",") if (word := part.strip().lower()) not in ("", "identity")]
    if not named:
        return Codec.NONE
    if len(named) > 1 or named[0] not in CODECS:
        raise EncodingRefused(415, f"Content-Encoding {', '.join(named)!r} is not taken: send one of {TAKEN}, or none")
    return CODECS[named[0]]


def unpacked(codec: Codec, body: bytes, most_bytes: int) -> bytes:
    """Return the body as it was before the client packed it. Raises EncodingRefused: 400 for one that is damaged or cut short,
    413 for more than `most_bytes`, of which no more is unpacked.
    """
    if codec is Codec.NONE:
        return body
    try:
        if not body:
            raise CorruptBatch("it is empty")
        return decompress(codec, body, max_bytes=most_bytes)
    except Bomb as error:
        words = f"the {len(body)} bytes of the body unpack to more than {most_bytes} (most_body_bytes): send fewer events at once"
        raise EncodingRefused(413, words) from error
    except CorruptBatch as error:
        raise EncodingRefused(400, f"the body is not whole {codec.name.lower()}: {error}") from error
