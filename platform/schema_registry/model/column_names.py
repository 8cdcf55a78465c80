"""Which names of an event's fields no table of the warehouse can have, so that each load would put all of its events aside. Pure.

Reported where names are chosen: at a logger's start, and by `headrace schema check`.
"""

import json
from collections.abc import Iterable

OF_THE_RECORD = ("_topic_partition", "_offset", "_timestamp", "_schema_id")
"""The columns of every table besides the event's own."""
OF_ICEBERG = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
"""Iceberg's metadata columns: Spark refuses to read, write or compact a table with a column of such a name."""


def clash(names: Iterable[str]) -> str:
    """Return which of the names cannot become columns beside each other, and why; empty: all can."""
    seen = {name: name for name in (*OF_THE_RECORD, *OF_ICEBERG)}
    for name in names:
        if name.lower() in seen:
            return f"field {name!r} has the name of column {seen[name.lower()]!r} (capitals do not count): rename it"
        seen[name.lower()] = name
    return ""


def clash_of_schema(text: str) -> str:
    """Return the same of a schema's JSON; empty for one without fields."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        return ""
    return clash(str(one["name"]) for one in schema["fields"])
