"""What changed between two schemas, field by field. Pure. Whether the change is allowed is `compatibility`'s question."""

from collections.abc import Iterator
from dataclasses import dataclass

from .avro_types import Array, AvroType, Enum, Field, Fixed, Map, Record, Union, logical_type, word_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One change. `field`: names joined by dots; empty for the schema itself."""

    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.field or '(schema)'}: {self.what}"


def differences(old: AvroType, new: AvroType) -> list[Difference]:
    """Return every change from `old` to `new`, in the order of the new fields, removed ones last; empty if there is none."""
    return list(_below(old, new, "", set()))


def _below(old: AvroType, new: AvroType, at: str, met: set[tuple[int, int]]) -> Iterator[Difference]:
    match old, new:
        case Record(), Record():
            if (id(old), id(new)) in met:
                return
            met.add((id(old), id(new)))
            if old.name != new.name:
                yield Difference(field=at, what=f"record {old.name} is now called {new.name}")
            yield from _fields(old, new, at, met)
        case Enum(), Enum():
            if old.name != new.name:
                yield Difference(field=at, what=f"enum {old.name} is now called {new.name}")
            added = [symbol for symbol in new.symbols if symbol not in old.symbols]
            removed = [symbol for symbol in old.symbols if symbol not in new.symbols]
            if added:
                yield Difference(field=at, what=f"symbols added: {', '.join(added)}")
            if removed:
                yield Difference(field=at, what=f"symbols removed: {', '.join(removed)}")
            if old.default != new.default:
                yield Difference(field=at, what=f"the enum's default was {old.default!r} and is {new.default!r}")
        case Array(), Array():
            yield from _below(old.items, new.items, f"{at}[]", met)
        case Map(), Map():
            yield from _below(old.values, new.values, f"{at}{{}}", met)
        case Union(), Union():
            yield from _branches(old, new, at, met)
        case Fixed(), Fixed() if old.size != new.size:
            yield Difference(field=at, what=f"fixed {new.name} had {old.size} bytes and has {new.size}")
        case _:
            if (was := _word(old)) != (now := _word(new)):
                yield Difference(field=at, what=f"was {was} and is {now}")


def _fields(old: Record, new: Record, at: str, met: set[tuple[int, int]]) -> Iterator[Difference]:
    before = {field.name: field for field in old.fields}
    kept = set()
    for field in new.fields:
        name = f"{at}.{field.name}" if at else field.name
        was = before.get(field.name) or next((before[alias] for alias in field.aliases if alias in before), None)
        if was is None:
            yield Difference(field=name, what=f"added: {word_for(field.type)}, {_default(field)}")
            continue
        kept.add(was.name)
        if was.name != field.name:
            yield Difference(field=name, what=f"was called {was.name}")
        if _default(was) != _default(field):
            yield Difference(field=name, what=f"had {_default(was)} and has {_default(field)}")
        yield from _below(was.type, field.type, name, met)
    for field in old.fields:
        if field.name not in kept:
            yield Difference(field=f"{at}.{field.name}" if at else field.name, what=f"removed: {word_for(field.type)}")


def _branches(old: Union, new: Union, at: str, met: set[tuple[int, int]]) -> Iterator[Difference]:
    before = {word_for(branch): branch for branch in old.branches}
    after = {word_for(branch): branch for branch in new.branches}
    for word, branch in after.items():
        if word in before:
            yield from _below(before[word], branch, at, met)
        else:
            yield Difference(field=at, what=f"branch added: {word}")
    for word in before:
        if word not in after:
            yield Difference(field=at, what=f"branch removed: {word}")


def _word(one: AvroType) -> str:
    logical = logical_type(one)
    details = {name: value for name, value in one.properties if name in ("precision", "scale")}
    return word_for(one) + (f" ({logical}{', ' + str(details) if details else ''})" if logical else "")


def _default(field: Field) -> str:
    return f"default {field.default!r}" if field.has_default else "no default"
