"""A writer's schema for a reader that wants only some of its fields. Pure.

What is left out is skipped where fastavro reads, and never becomes Arrow. So are fields of fields.
"""

from collections.abc import Collection, Iterable
from typing import Any

import fastavro
import pyarrow as pa


def within(wanted: Iterable[pa.Field], fields: Iterable[pa.Field]) -> tuple[list[pa.Field], list[str]]:
    """Return `fields` as far as `wanted` has a place for them, and the names (`a.b`, `a[].b`) of what has none.

    A name that differs only in capitals from a wanted one is not a field without a place: `columns.union` refuses it.
    """
    places = {one.name: one.type for one in wanted}
    folded = {name.lower() for name in places}
    kept, left_out = [], []
    for one in fields:
        if one.name in places:
            kind, inner = _within(places[one.name], one.type, one.name)
            kept.append(pa.field(one.name, kind))
            left_out += inner
        elif one.name.lower() in folded:
            kept.append(one)
        else:
            left_out.append(one.name)
    return kept, left_out


def _within(wanted: pa.DataType, kind: pa.DataType, path: str) -> tuple[pa.DataType, list[str]]:
    if pa.types.is_struct(wanted) and pa.types.is_struct(kind):
        kept, left_out = within(wanted.fields, kind.fields)
        return pa.struct(kept), [f"{path}.{name}" for name in left_out]
    if pa.types.is_list(wanted) and pa.types.is_list(kind):
        item, left_out = _within(wanted.value_type, kind.value_type, f"{path}[]")
        return pa.list_(pa.field("element", item)), left_out
    if pa.types.is_map(wanted) and pa.types.is_map(kind):
        item, left_out = _within(wanted.item_type, kind.item_type, f"{path}[]")
        return pa.map_(pa.string(), item), left_out
    return kind, []


def pruned(avro: Any, names: Collection[str]) -> Any | None:
    """Return a record's schema with these of its fields, parsed for fastavro, for reading what the whole schema wrote.

    None: the fields do not stand by themselves, because one that is left out defines a type that another one uses.
    """
    try:
        return fastavro.parse_schema({**avro, "fields": [one for one in avro["fields"] if one["name"] in names]})
    except fastavro.schema.UnknownType:
        return None
