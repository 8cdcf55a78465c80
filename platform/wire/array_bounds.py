"""A walk over a message before kio reads it: every count and length must fit into the bytes that are there.

kio's native reader allocates what an array's count says before it looks at the bytes: five bytes from a stranger (a count of four
billion) end the whole process. So each message is walked first, by the same schema classes, and nothing absurd reaches that
reader.
"""

import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, get_field_tag, is_optional

from .errors import MalformedFrame
from .primitives import INT, SHORT, read_count, read_unsigned

Walk = Callable[[bytes, int], int]
"""Takes the message and where something begins; returns where it ends. Raises when it cannot be there."""

_SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}


class _Budget(threading.local):
    """How many more elements the arrays of the message at hand may have together; each thread walks one message at a time."""

    left = 0


_budget = _Budget()


def check(entity_type: Any, message: bytes, *, most_elements: int = sys.maxsize) -> None:
    """Raise `MalformedFrame` unless `message` holds a whole `entity_type` whose every array and string fits into it, and whose
    arrays together have at most `most_elements`: four megabytes of the smallest ones keep kio busy for seconds.
    """
    _budget.left = most_elements
    try:
        end = _entity(entity_type)[0](message, 0)
    except (IndexError, struct.error):
        raise MalformedFrame(f"a {entity_type.__name__} of {len(message)} bytes is cut") from None
    if end > len(message):
        raise MalformedFrame(f"a {entity_type.__name__} of {len(message)} bytes is cut")


@cache
def _entity(entity_type: Any) -> tuple[Walk, int]:
    """Return the walk over one entity and the fewest bytes that it takes."""
    flexible: bool = entity_type.__flexible__
    walks: list[Walk | int] = []
    tagged: dict[int, Walk] = {}
    least = 0
    for field in fields(entity_type):
        tag = get_field_tag(field)
        walk, size = _field(field, flexible, is_tag=tag is not None)
        if tag is not None:
            tagged[tag] = walk if callable(walk) else _skip(walk)
            continue
        least += size
        if not callable(walk) and walks and not callable(walks[-1]):
            walks[-1] += walk
        else:
            walks.append(walk)
    if flexible:
        walks.append(_tags(tagged))
        least += 1
    steps = tuple(step if callable(step) else _skip(step) for step in walks)

    def walk_entity(message: bytes, at: int) -> int:
        for step in steps:
            at = step(message, at)
        return at

    # An entity without fields would let a count be any number: one byte is asked for all the same.
    return walk_entity, max(1, least)


def _field(field: Any, flexible: bool, *, is_tag: bool) -> tuple[Walk | int, int]:
    """Return how to pass the field (a walk, or a fixed size) and the fewest bytes that it takes."""
    match classify_field(field):
        case EntityField(type_):
            walk, least = _entity(type_)
            if is_optional(field) and not is_tag:
                return _nullable(walk), 1
            return walk, least
        case EntityTupleField(type_):
            walk, least = _entity(type_)
            return _array(walk, least, flexible), 1 if flexible else 4
        case PrimitiveTupleField():
            each, least = _primitive(field.metadata["kafka_type"], flexible)
            return _array(each if callable(each) else _skip(each), least, flexible), 1 if flexible else 4
        case _:
            return _primitive(field.metadata["kafka_type"], flexible)


def _primitive(kafka_type: str, flexible: bool) -> tuple[Walk | int, int]:
    if kafka_type in _SIZES:
        return _SIZES[kafka_type], _SIZES[kafka_type]
    if flexible:
        return _compact, 1
    return (_text, 2) if kafka_type == "string" else (_blob, 4)


def _skip(size: int) -> Walk:
    def skip(message: bytes, at: int) -> int:
        if at + size > len(message):
            raise MalformedFrame(f"{size} bytes are wanted at byte {at} of {len(message)}")
        return at + size

    return skip


def _array(each: Walk, least: int, flexible: bool) -> Walk:
    def walk(message: bytes, at: int) -> int:
        number, at = read_count(message, at, flexible=flexible, each=least)
        if number > 0:
            _budget.left -= number
            if _budget.left < 0:
                raise MalformedFrame(f"arrays with more elements than are taken at once, the last of {number} at byte {at}")
        for _ in range(number):
            at = each(message, at)
        return at

    return walk


def _nullable(walk: Walk) -> Walk:
    def walk_or_null(message: bytes, at: int) -> int:
        # KIP-893: one signed byte says whether the structure follows.
        return at + 1 if message[at] >= 0x80 else walk(message, at + 1)

    return walk_or_null


def _tags(tagged: dict[int, Walk]) -> Walk:
    def walk(message: bytes, at: int) -> int:
        number, at = read_unsigned(message, at)
        if 2 * number > len(message) - at:
            raise MalformedFrame(f"{number} tagged fields at byte {at} of {len(message)}")
        for _ in range(number):
            tag, at = read_unsigned(message, at)
            size, at = read_unsigned(message, at)
            end = at + size
            if end > len(message):
                raise MalformedFrame(f"a tagged field {tag} of {size} bytes at byte {at} of {len(message)}")
            known = tagged.get(tag)
            if known is not None and known(message, at) != end:
                raise MalformedFrame(f"tagged field {tag} at byte {at} is not {size} bytes long")
            at = end
        return at

    return walk


def _compact(message: bytes, at: int) -> int:
    size, at = read_unsigned(message, at)
    return _behind(message, at, max(0, size - 1))


def _text(message: bytes, at: int) -> int:
    return _behind(message, at + 2, SHORT.unpack_from(message, at)[0])


def _blob(message: bytes, at: int) -> int:
    return _behind(message, at + 4, INT.unpack_from(message, at)[0])


def _behind(message: bytes, at: int, size: int) -> int:
    if size < -1 or at + size > len(message):
        raise MalformedFrame(f"{size} bytes at byte {at} of {len(message)}")
    return at + max(0, size)
