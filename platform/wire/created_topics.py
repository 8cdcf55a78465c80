"""The answer to CreateTopics, versions 0-7, written by hand: from version 5 on it repeats twenty settings for each topic, which
kio takes 0.3 ms a topic for. Topics with the same settings share their bytes.

    answer    [v2: throttle] · topics · [v5: tags]
    topic     name · [v7: id] · error · [v1: message] · [v5: partitions · replicas · settings · tags]
    setting   name · value · read only · source · sensitive · tags

Source: Kafka's CreateTopicsResponse.json. There are no topic ids: sixteen zero bytes.
"""

import struct
from collections.abc import Generator, Iterable
from typing import NamedTuple

from .answer_bytes import AnswerBytes
from .errors import ErrorCode
from .primitives import INT, NO_TAGS, SHORT, count, string

API_KEY = 19
FIRST_FLEXIBLE = 5

_NO_ID = bytes(16)
_NUMBERS = struct.Struct(">ih")
_SETTING = struct.Struct(">?b?b")

NO_SETTINGS = count(0, flexible=True)


class Result(NamedTuple):
    """What became of one topic."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    partition_count: int = -1
    replication_factor: int = -1
    settings: bytes = NO_SETTINGS
    """What `settings` wrote."""


def settings(values: Iterable[tuple[str, str, int]]) -> bytes:
    """Return a topic's settings as they stand in the answer from version 5 on: name, value, source of each."""
    each = [
        string(name, flexible=True) + string(value, flexible=True) + _SETTING.pack(False, source, False, 0)
        for name, value, source in values
    ]
    return count(len(each), flexible=True) + b"".join(each)


def encode_in_steps(version: int, results: Iterable[Result]) -> Generator[None, None, bytes]:
    """Return the answer's body, with a pause after each topic."""
    flexible = version >= FIRST_FLEXIBLE
    parts = [INT.pack(0) if version >= 2 else b"", b""]
    errors: list[int] = []
    number = 0
    for result in results:
        number += 1
        parts.append(string(result.name, flexible=flexible) + (_NO_ID if version >= 7 else b"") + SHORT.pack(result.error))
        parts.append(string(result.message, flexible=flexible) if version >= 1 else b"")
        if flexible:
            parts += (_NUMBERS.pack(result.partition_count, result.replication_factor), result.settings, NO_TAGS)
        if result.error:
            errors.append(int(result.error))
        yield
    parts[1] = count(number, flexible=flexible)
    parts.append(NO_TAGS if flexible else b"")
    return AnswerBytes.holding(b"".join(parts), errors)
