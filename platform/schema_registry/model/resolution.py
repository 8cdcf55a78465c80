"""Decides whether data written with one schema can be read with another; if not, where and why. Pure.

Source: the Avro 1.12 specification, "Schema Resolution". Named types match by their unqualified name or an alias of the reader's,
as in Avro's Java `SchemaCompatibility`. Of logical types only the scale of decimals is compared, as the specification requires: a
changed scale would turn 1.00 into 0.100 without an error.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ..errors import InvalidSchema
from .avro_types import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
    first_words,
    logical_type,
    short_name,
    word_for,
)

READABLE_AS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
"""Written kind → the other kinds it can be read as."""

INCOMPATIBILITY_LIMIT = 100
"""The most incompatibilities that one check returns: two large unrelated schemas must not give an endless list."""

COMPARISON_LIMIT = 1_000_000
"""The most steps (pairs of types, fields, symbols) of one check, some seconds' work: unions of thousands are refused rather than
compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incompatibility:
    """One place at which the reader cannot read the writer's data."""

    path: str
    """In the reader's schema: `/fields/status/type`, `/` for the schema itself."""
    kind: str
    """One word for programs, the name in Avro's Java: TYPE_MISMATCH, NAME_MISMATCH, READER_FIELD_MISSING_DEFAULT_VALUE, …"""
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason} ({self.kind})"


def incompatibilities(*, reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Return every place at which `reader` cannot read data written with `writer`; empty if there is none; at most 100."""
    readable = ReadablePairs(reader, writer)
    return [] if readable.holds(reader, writer) else _Faults(readable).of(reader, writer)


class ReadablePairs:
    """The pairs (reader's type, writer's type) below two schemas that are readable.

    Types may contain themselves, and a union tries every branch, so a recursive check would take exponential time or never end.
    Instead every pair is first assumed readable. Pairs that break a rule are removed until nothing changes: a greatest fixpoint.
    """

    def __init__(self, reader: AvroType, writer: AvroType) -> None:
        self._readable: dict[tuple[int, int], bool] = {}
        self._pairs: list[tuple[AvroType, AvroType]] = []
        self.steps = 0
        self.holds(reader, writer)
        is_changed = True
        while is_changed:
            is_changed = False
            known = len(self._pairs)
            for one in range(known - 1, -1, -1):
                pair = self._pairs[one]
                key = (id(pair[0]), id(pair[1]))
                if self._readable[key] and not self._keeps_the_rules(*pair):
                    self._readable[key] = False
                    is_changed = True
            is_changed = is_changed or len(self._pairs) > known

    def holds(self, reader: AvroType, writer: AvroType) -> bool:
        """Return what is known of a pair. A new pair is added and counts as readable until a rule removes it."""
        self._spend(1)
        if isinstance(reader, Record) and isinstance(writer, Record) and not _names_match(reader, writer):
            # Decided at once, so it is not stored: two large unions have very many such pairs.
            return False
        key = (id(reader), id(writer))
        if key not in self._readable:
            self._readable[key] = True
            self._pairs.append((reader, writer))
        return self._readable[key]

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > COMPARISON_LIMIT:
            raise InvalidSchema(
                f"comparing the two schemas takes more than {COMPARISON_LIMIT} steps: make them smaller", error_code=42209
            )

    def _keeps_the_rules(self, reader: AvroType, writer: AvroType) -> bool:
        # Lists, not generators: every pair below must be added, even if the result is known already.
        match reader, writer:
            case _, Union():
                return all([self.holds(reader, branch) for branch in writer.branches])
            case Union(), _:
                return any([self.holds(branch, writer) for branch in reader.branches])
            case Record(), Record():
                self._spend(len(reader.fields) + len(writer.fields))
                pairs = [(field.type, written.type) for field, written in _field_pairs(reader, writer) if written is not None]
                has_all = all(written is not None or field.has_default for field, written in _field_pairs(reader, writer))
                return all([self.holds(*pair) for pair in pairs]) and has_all and _names_match(reader, writer)
            case Array(), Array():
                return self.holds(reader.items, writer.items)
            case Map(), Map():
                return self.holds(reader.values, writer.values)
            case _:
                self._spend(_size(reader) + _size(writer))
                return not list(_leaf_faults(reader, writer, ""))


class _Faults:
    """Walks down two schemas, for which the readable pairs are known, and reports the pairs that are not."""

    def __init__(self, readable: ReadablePairs) -> None:
        self._readable = readable
        # Pairs of records wait here. So the recursion is as deep as the text is nested, not as long as a chain of names.
        self._waiting: deque[tuple[Record, Record, str]] = deque()
        self._met: set[tuple[int, int]] = set()

    def of(self, reader: AvroType, writer: AvroType) -> list[Incompatibility]:
        faults = list(islice(self._below(reader, writer, ""), INCOMPATIBILITY_LIMIT))
        while self._waiting and len(faults) < INCOMPATIBILITY_LIMIT:
            faults.extend(islice(self._record_faults(*self._waiting.popleft()), INCOMPATIBILITY_LIMIT - len(faults)))
        return faults

    def _below(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        match reader, writer:
            case _, Union():
                for branch in writer.branches:
                    if isinstance(reader, Union):
                        yield from self._union_faults(reader, branch, path)
                        continue
                    for fault in self._below(reader, branch, path):
                        yield _fault(fault.path, fault.kind, f"{fault.reason} (written as branch {word_for(branch)} of a union)")
            case Union(), _:
                yield from self._union_faults(reader, writer, path)
            case Record(), Record():
                if (id(reader), id(writer)) not in self._met:
                    self._met.add((id(reader), id(writer)))
                    self._waiting.append((reader, writer, path))
            case Array(), Array():
                yield from self._below(reader.items, writer.items, f"{path}/items")
            case Map(), Map():
                yield from self._below(reader.values, writer.values, f"{path}/values")
            case _:
                yield from _leaf_faults(reader, writer, path)

    def _union_faults(self, reader: Union, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        if any(self._readable.holds(branch, writer) for branch in reader.branches):
            return
        alike = [
            (position, branch)
            for position, branch in enumerate(reader.branches)
            if branch.kind == writer.kind and (not isinstance(branch, Record | Enum | Fixed) or _names_match(branch, writer))
        ]
        if len(alike) == 1:
            # The intended branch exists: the error inside it says more than 'no branch fits'.
            position, branch = alike[0]
            yield from self._below(branch, writer, f"{path}/{position}")
            return
        yield _fault(path, "MISSING_UNION_BRANCH", f"no branch of the reader's {word_for(reader)} reads {word_for(writer)}")

    def _record_faults(self, reader: Record, writer: Record, path: str) -> Iterator[Incompatibility]:
        yield from _name_faults(reader, writer, path)
        for field, written in _field_pairs(reader, writer):
            at = f"{path}/fields/{field.name}"
            if written is not None:
                yield from self._below(field.type, written.type, f"{at}/type")
            elif not field.has_default:
                why = (
                    f"the reader's field {field.name!r} of record {reader.name} is not in the writer's record and has no default"
                )
                yield _fault(at, "READER_FIELD_MISSING_DEFAULT_VALUE", why)


def _leaf_faults(reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
    """Report what is wrong between two types that hold no others, or that are of different kinds."""
    match reader, writer:
        case Enum(), Enum():
            yield from _name_faults(reader, writer, path)
            known = frozenset(reader.symbols)
            missing = [symbol for symbol in writer.symbols if symbol not in known]
            if missing and reader.default is None:
                why = f"the reader's enum {reader.name} lacks {first_words(missing)} and has no default"
                yield _fault(f"{path}/symbols", "MISSING_ENUM_SYMBOLS", why)
        case Fixed(), Fixed():
            yield from _name_faults(reader, writer, path)
            if reader.size != writer.size:
                why = f"fixed {reader.name} is read as {reader.size} bytes, written as {writer.size}"
                yield _fault(f"{path}/size", "FIXED_SIZE_MISMATCH", why)
            yield from _decimal_faults(reader, writer, path)
        case Primitive(), Primitive() if reader.kind == writer.kind:
            yield from _decimal_faults(reader, writer, path)
        case Primitive(), Primitive() if reader.kind in READABLE_AS.get(writer.kind, ()):
            return
        case _:
            yield _fault(path, "TYPE_MISMATCH", f"{word_for(reader)} cannot read {word_for(writer)}")


def _size(avro_type: AvroType) -> int:
    """Return how much a comparison of this type alone looks at."""
    return len(avro_type.properties) + (len(avro_type.symbols) if isinstance(avro_type, Enum) else 0)


def _field_pairs(reader: Record, writer: Record) -> list[tuple[Field, Field | None]]:
    """Return each field of the reader with the writer's field of the same name, else with its first alias that was written."""
    written = {field.name: field for field in writer.fields}
    return [
        (field, next((written[name] for name in (field.name, *field.aliases) if name in written), None))
        for field in reader.fields
    ]


def _name_faults(reader: Named, writer: Named, path: str) -> Iterator[Incompatibility]:
    if not _names_match(reader, writer):
        why = f"{word_for(reader)} cannot read {word_for(writer)}: neither its name nor an alias is {writer.name}"
        yield _fault(f"{path}/name", "NAME_MISMATCH", why)


def _names_match(reader: Named, writer: AvroType) -> bool:
    assert isinstance(writer, Record | Enum | Fixed)
    return short_name(reader.name) == short_name(writer.name) or writer.name in reader.aliases


def _decimal_faults(reader: Primitive | Fixed, writer: Primitive | Fixed, path: str) -> Iterator[Incompatibility]:
    if logical_type(reader) != "decimal" or logical_type(writer) != "decimal":
        return
    read, written = dict(reader.properties), dict(writer.properties)
    if read.get("scale", 0) != written.get("scale", 0):
        why = f"a decimal of scale {written.get('scale', 0)} would be read with scale {read.get('scale', 0)}, as another number"
        yield _fault(f"{path}/scale", "DECIMAL_SCALE_MISMATCH", why)


def _fault(path: str, kind: str, reason: str) -> Incompatibility:
    return Incompatibility(path=path or "/", kind=kind, reason=reason)
