"""A table's columns: those of its topic's events, and what follows from them for the table's properties."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.types import DateType, NestedField, StructType, TimestampType, TimestamptzType

from ..source.columns import SYSTEM_COLUMNS


def widen(transaction: Any, event_columns: pa.Schema) -> None:
    """Add the columns that the table does not have."""
    with transaction.update_schema() as update:
        update.union_by_name(pa.schema([*event_columns, *SYSTEM_COLUMNS]))
    transaction.set_properties(_properties(transaction.table_metadata.schema()))


def _properties(schema: Any) -> dict[str, str]:
    """Return the properties that follow from the columns.

    Parquet files written by Spark have no field ids: columns are matched by name, new ones too. An event's own instants may lie
    beyond the year 9999, where pyiceberg's lowest and highest values end in OverflowError: it keeps only their counts.
    """
    counted = {f"write.metadata.metrics.column.{name}": "counts" for name in _instants(schema.fields, "") if name != "_timestamp"}
    return {"schema.name-mapping.default": schema.name_mapping.model_dump_json(), **counted}


def _instants(fields: Sequence[NestedField], inside: str) -> Iterator[str]:
    for field in fields:
        match field.field_type:
            case TimestampType() | TimestamptzType() | DateType():
                yield inside + field.name
            case StructType() as struct:
                yield from _instants(struct.fields, f"{inside}{field.name}.")
