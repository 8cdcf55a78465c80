"""The answer to DescribeLogDirs, versions 0-4, written by hand: kio takes 30 µs a partition, and tools ask for all at once.

    answer      throttle · [v3: error] · folders · [v2: tags]
    folder      error · path · topics · [v4: bytes of the disk, bytes that are free] · [v2: tags]
    topic       name · partitions · [v2: tags]
    partition   index · bytes · lag · is future · [v2: tags]

Source: Kafka's DescribeLogDirsResponse.json.
"""

import struct
from collections.abc import Iterable, Mapping

from .answer_bytes import AnswerBytes
from .errors import ErrorCode
from .primitives import INT, LONG, NO_TAGS, SHORT, count, string

API_KEY = 35
FIRST_FLEXIBLE = 2

_PARTITION = struct.Struct(">iqq?")
_FLEXIBLE_PARTITION = struct.Struct(">iqq?b")


def encode_response(
    version: int,
    *,
    error: ErrorCode,
    folder: str,
    sizes: Mapping[str, Iterable[tuple[int, int]]],
    total_bytes: int,
    usable_bytes: int,
) -> bytes:
    """Return the answer's body for one folder. `sizes` has each topic's partitions and their bytes."""
    flexible = version >= FIRST_FLEXIBLE
    pack = _FLEXIBLE_PARTITION.pack if flexible else _PARTITION.pack
    behind = (0, False, 0) if flexible else (0, False)
    tags = NO_TAGS if flexible else b""
    parts = [INT.pack(0), SHORT.pack(ErrorCode.NONE) if version >= 3 else b""]
    parts += [count(1, flexible=flexible), SHORT.pack(error), string(folder, flexible=flexible)]
    parts.append(count(len(sizes), flexible=flexible))
    for topic, partitions in sizes.items():
        each = [pack(index, size_bytes, *behind) for index, size_bytes in partitions]
        parts += [string(topic, flexible=flexible), count(len(each), flexible=flexible), *each, tags]
    parts.append(LONG.pack(total_bytes) + LONG.pack(usable_bytes) if version >= 4 else b"")
    return AnswerBytes.holding(b"".join((*parts, tags, tags)), [error] if error else [])
