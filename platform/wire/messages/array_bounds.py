"""A check of a message before kio reads it: every count and length must fit into the message's bytes.

kio's native reader allocates an array by its count before it looks at the bytes: five bytes from a client (a count of four
billion) end the whole process. So this check walks over each message first, by the same schema classes. The walk yields at each
element, so that the caller may do other work during a long message.
"""

import struct
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, get_field_tag, is_optional

from ..errors import MalformedFrame
from ..generators import run_to_end
from ..primitives import INT, SHORT, read_count, read_tag_count, read_unsigned

Walk = Callable[[bytes, int], int]
"""Takes the message and the byte where an item begins; returns the byte where it ends. Raises when the item does not fit."""


@dataclass(slots=True)
class _Budget:
    """How many more elements all arrays of the message may have together."""

    left: int


WalkGenerator = Generator[None, None, int]
LongWalk = Callable[[bytes, int, _Budget], WalkGenerator]
"""A walk over an item with arrays. It yields at each of their elements."""
AnyWalk = tuple[Walk | None, LongWalk | None]
"""One of the two; the other is None."""

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


def check(entity_type: Any, message: bytes, *, most_elements: int = sys.maxsize) -> None:
    """Raise `MalformedFrame` unless `message` holds a whole `entity_type`, every array and string fits into it, and its arrays
    together have at most `most_elements`. (Four megabytes of the smallest elements keep kio busy for seconds.)
    """
    run_to_end(check_in_steps(entity_type, message, most_elements=most_elements))


def check_in_steps(entity_type: Any, message: bytes, *, most_elements: int = sys.maxsize) -> Generator[None, None, None]:
    """Check as `check` does, and yield at each element of an array."""
    walk = _as_long_walk(_entity(entity_type)[0])
    try:
        end = yield from walk(message, 0, _Budget(most_elements))
    except (IndexError, struct.error):
        raise MalformedFrame(f"a {entity_type.__name__} of {len(message)} bytes is cut") from None
    if end > len(message):
        raise MalformedFrame(f"a {entity_type.__name__} of {len(message)} bytes is cut")


@cache
def _entity(entity_type: Any) -> tuple[AnyWalk, int]:
    """Return the walk over one entity, and its smallest size in bytes."""
    flexible: bool = entity_type.__flexible__
    walks: list[AnyWalk | int] = []
    tagged: dict[int, AnyWalk] = {}
    least = 0
    for field in fields(entity_type):
        tag = get_field_tag(field)
        walk, size = _field(field, flexible, is_tag=tag is not None)
        if tag is not None:
            tagged[tag] = (_skip(walk), None) if isinstance(walk, int) else walk
            continue
        least += size
        if isinstance(walk, int) and walks and isinstance(before := walks[-1], int):
            walks[-1] = before + walk
        else:
            walks.append(walk)
    if flexible:
        walks.append((_tags(tagged), None))
        least += 1
    parts: list[AnyWalk] = [(_skip(walk), None) if isinstance(walk, int) else walk for walk in walks]
    # An entity without fields would allow any count: it counts as one byte.
    return _one_after_the_other(parts), max(1, least)


def _one_after_the_other(parts: list[AnyWalk]) -> AnyWalk:
    short = [walk for walk, _ in parts if walk is not None]

    def walk_entity(message: bytes, at: int) -> int:
        for walk in short:
            at = walk(message, at)
        return at

    def walk_long_entity(message: bytes, at: int, budget: _Budget) -> WalkGenerator:
        for walk, long_walk in parts:
            if walk is not None:
                at = walk(message, at)
            elif long_walk is not None:
                at = yield from long_walk(message, at, budget)
        return at

    return (walk_entity, None) if len(short) == len(parts) else (None, walk_long_entity)


def _field(field: Any, flexible: bool, *, is_tag: bool) -> tuple[AnyWalk | int, int]:
    """Return the walk over a field, or its fixed size, and its smallest size in bytes."""
    match classify_field(field):
        case EntityField(type_):
            walk, least = _entity(type_)
            if is_optional(field) and not is_tag:
                return (None, _nullable(walk)), 1
            return walk, least
        case EntityTupleField(type_):
            walk, least = _entity(type_)
            return (None, _array(walk, least, flexible)), 1 if flexible else 4
        case PrimitiveTupleField():
            each, least = _primitive(field.metadata["kafka_type"], flexible)
            return (None, _array((_skip(each) if isinstance(each, int) else each, None), least, flexible)), 1 if flexible else 4
        case _:
            each, least = _primitive(field.metadata["kafka_type"], flexible)
            return each if isinstance(each, int) else (each, None), least


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


def _array(each: AnyWalk, least: int, flexible: bool) -> LongWalk:
    one, long_one = each

    def walk(message: bytes, at: int, budget: _Budget) -> WalkGenerator:
        number, at = read_count(message, at, flexible=flexible, each=least)
        if number > 0:
            budget.left -= number
            if budget.left < 0:
                raise MalformedFrame(f"arrays with more elements than are taken at once, the last of {number} at byte {at}")
        for _ in range(number):
            if one is not None:
                at = one(message, at)
            elif long_one is not None:
                at = yield from long_one(message, at, budget)
            yield
        return at

    return walk


def _nullable(walk: AnyWalk) -> LongWalk:
    long_walk = _as_long_walk(walk)

    def walk_or_null(message: bytes, at: int, budget: _Budget) -> WalkGenerator:
        # KIP-893: one signed byte says whether the structure follows.
        if message[at] >= 0x80:
            return at + 1
        return (yield from long_walk(message, at + 1, budget))

    return walk_or_null


def _as_long_walk(walk: AnyWalk) -> LongWalk:
    short, long_walk = walk

    def walk_without_pause(message: bytes, at: int, budget: _Budget) -> WalkGenerator:
        yield from ()
        return at if short is None else short(message, at)

    return walk_without_pause if long_walk is None else long_walk


def _tags(tagged: dict[int, AnyWalk]) -> Walk:
    def walk(message: bytes, at: int) -> int:
        if message[at] == 0:
            return at + 1
        number, at = read_tag_count(message, at)
        for _ in range(number):
            tag, at = read_unsigned(message, at)
            size, at = read_unsigned(message, at)
            end = at + size
            if end > len(message):
                raise MalformedFrame(f"a tagged field {tag} of {size} bytes at byte {at} of {len(message)}")
            known = tagged.get(tag)
            if known is not None and _end_of(known, message, at) != end:
                raise MalformedFrame(f"tagged field {tag} at byte {at} is not {size} bytes long")
            at = end
        return at

    return walk


def _end_of(walk: AnyWalk, message: bytes, at: int) -> int:
    """Walk without a pause: no served request has arrays in its tagged fields."""
    return run_to_end(_as_long_walk(walk)(message, at, _Budget(len(message))))


def _compact(message: bytes, at: int) -> int:
    if (size := message[at]) < 0x80:  # nearly always; the length is one higher than the size, 0 is null
        end = at + (size or 1)
        if end > len(message):
            raise MalformedFrame(f"{size - 1} bytes at byte {at + 1} of {len(message)}")
        return end
    size, at = read_unsigned(message, at)
    return _behind(message, at, max(0, size - 1))


def _text(message: bytes, at: int) -> int:
    if message[at] == 0:  # shorter than 256 bytes
        end = at + 2 + message[at + 1]
        if end <= len(message):
            return end
    return _behind(message, at + 2, SHORT.unpack_from(message, at)[0])


def _blob(message: bytes, at: int) -> int:
    return _behind(message, at + 4, INT.unpack_from(message, at)[0])


def _behind(message: bytes, at: int, size: int) -> int:
    if size < -1 or at + size > len(message):
        raise MalformedFrame(f"{size} bytes at byte {at} of {len(message)}")
    return at + max(0, size)
