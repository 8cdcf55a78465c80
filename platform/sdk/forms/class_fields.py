"""The fields of a dataclass or TypedDict as its author wrote them: names, types, defaults, docs. Pure."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

from ..errors import SchemaRefused
from .field_types import DecimalDigits

NO_DEFAULT: Any = object()
_NONE = type(None)


@dataclass(frozen=True, slots=True)
class ClassField:
    name: str
    python_type: Any
    default: Any = NO_DEFAULT
    doc: str | None = None
    may_be_missing: bool = False
    """A `NotRequired` key of a TypedDict."""


def fields_of(event_class: type) -> list[ClassField]:
    """Return the fields of a dataclass or TypedDict. Raises `SchemaRefused` for another class, and for unknown types."""
    if not (dataclasses.is_dataclass(event_class) or typing.is_typeddict(event_class)):
        raise SchemaRefused(f"class {shown(event_class)} is neither a dataclass nor a TypedDict: make it one, or give a schema")
    try:
        hints = typing.get_type_hints(event_class, include_extras=True)
    except Exception as error:
        raise SchemaRefused(
            f"class {event_class.__name__}: its types are not found ({error}): define them at the top level of a module"
        ) from error
    if dataclasses.is_dataclass(event_class):
        return [_of_dataclass(field, hints[field.name]) for field in dataclasses.fields(event_class)]
    required: frozenset[str] = getattr(event_class, "__required_keys__")  # noqa: B009
    return [_of_typed_dict(name, hint, name in required) for name, hint in hints.items()]


def bare(python_type: Any) -> tuple[Any, DecimalDigits | None]:
    """Return a type without `Annotated`, `NewType` and alias around it, and the digits that an annotation gave."""
    digits: DecimalDigits | None = None
    while True:
        if typing.get_origin(python_type) is typing.Annotated:
            python_type, *notes = typing.get_args(python_type)
            digits = next((note for note in notes if isinstance(note, DecimalDigits)), digits)
        elif isinstance(python_type, typing.NewType):
            python_type = python_type.__supertype__
        elif hasattr(python_type, "__value__"):  # `type X = …`, Python 3.12
            python_type = python_type.__value__
        else:
            return python_type, digits


def without_none(python_type: Any) -> tuple[Any, bool]:
    """Return the one type beside None, and whether None is allowed; no type where there are several."""
    if typing.get_origin(python_type) not in (typing.Union, types.UnionType):
        return python_type, False
    others = [one for one in typing.get_args(python_type) if one is not _NONE]
    return (others[0] if len(others) == 1 else None), len(others) < len(typing.get_args(python_type))


def doc_of(event_class: type) -> str | None:
    """Return what the author says of the class; the signature that Python writes for a dataclass without a word is none."""
    words = event_class.__dict__.get("__doc__")
    if not words or (dataclasses.is_dataclass(event_class) and words.startswith(f"{event_class.__name__}(")):
        return None
    return " ".join(words.split())


def shown(python_type: Any) -> str:
    """Return a type as its author wrote it."""
    return python_type.__name__ if isinstance(python_type, type) and not typing.get_args(python_type) else str(python_type)


def _of_dataclass(field: "dataclasses.Field[Any]", hint: Any) -> ClassField:
    default = NO_DEFAULT if field.default is MISSING else field.default
    if field.default_factory in (list, dict):
        default = field.default_factory()
    metadata: Mapping[Any, Any] = field.metadata
    return ClassField(field.name, hint, default, metadata.get("doc"))


def _of_typed_dict(name: str, hint: Any, is_required: bool) -> ClassField:
    # With `from __future__ import annotations` the class itself takes each key for required; the hint knows better.
    while (origin := typing.get_origin(hint)) in (typing.Required, typing.NotRequired):
        is_required = origin is typing.Required
        (hint,) = typing.get_args(hint)
    return ClassField(name, hint, may_be_missing=not is_required)
