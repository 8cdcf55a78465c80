"""Short ways to write schemas in tests."""

import json
from typing import Any

from headrace.schema_registry.model.avro_types import AvroType
from headrace.schema_registry.model.schema import parse_schema

NOTHING = object()


def field(name: str, kind: Any, default: Any = NOTHING, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **({} if default is NOTHING else {"default": default}), **more}


def record(*fields: dict[str, Any], name: str = "Event", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols: str, name: str = "Kind", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "Hash", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def parsed(words: Any) -> AvroType:
    return parse_schema(json.dumps(words)).type
