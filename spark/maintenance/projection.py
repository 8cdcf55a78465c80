"""Rows of an older file under the table's columns of today: columns and fields that it lacks are null. Pure."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def project(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with exactly the columns of `schema`. Raises pa.ArrowInvalid for a value that the type cannot hold."""
    names = set(rows.schema.names)
    columns = [_as(rows.column(one.name), one.type) if one.name in names else pa.nulls(rows.num_rows, one.type) for one in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as(array: Any, kind: pa.DataType) -> Any:
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([_field(array, one) for one in kind], fields=list(kind), mask=pc.is_null(array))
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return pa.array(array.to_pylist(), type=kind)  # a list or a map of structs that have more fields by now


def _field(array: Any, wanted: pa.Field) -> Any:
    at = array.type.get_field_index(wanted.name)
    return _as(array.field(at), wanted.type) if at >= 0 else pa.nulls(len(array), wanted.type)
