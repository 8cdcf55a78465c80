"""kio's classes of control messages by API key and version, and what their fields are called. Pure.

A class is `kio.schema.<api>.v<version>.request|response`; fields are in snake case, durations are a `timedelta` without `_ms`."""

from dataclasses import fields
from functools import cache
from typing import Any, Literal

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import EntityField, EntityTupleField, classify_field

from .errors import UnsupportedVersion

Side = Literal["request", "response"]


@cache
def message_type(side: Side, api_key: int, version: int) -> type[Any]:
    """Return kio's class of the message. Raises `UnsupportedVersion` where there is none."""
    try:
        return load_request_schema(api_key, version) if side == "request" else load_response_schema(api_key, version)
    except KioIndexError:
        raise UnsupportedVersion(
            f"no {side} of API {api_key} version {version} is known here: ask ApiVersions which versions the server speaks",
            api_key=api_key,
            version=version,
        ) from None


@cache
def known_fields(entity_type: Any) -> dict[str, tuple[str, str, type[Any] | None]]:
    """Return, by every name that a caller may use, the field's own name, its Kafka type and the class inside it."""
    known: dict[str, tuple[str, str, type[Any] | None]] = {}
    for field in fields(entity_type):
        shape = classify_field(field)
        inner = shape.type_ if isinstance(shape, EntityField | EntityTupleField) else None
        kind = str(field.metadata.get("kafka_type", ""))
        known[field.name] = (field.name, kind, inner)
        if kind.startswith(("timedelta", "datetime")):
            known[f"{field.name}_ms"] = known[field.name]
    return known


@cache
def names_in_any_version(api_key: int) -> frozenset[str]:
    """Return every field name of an API, to tell a field of another version from a misspelt one. Slow, asked once per API."""
    names: set[str] = set()
    pending: list[Any] = []
    for version in schema_name_map[api_key_map[api_key]]:
        pending += (message_type("request", api_key, version), message_type("response", api_key, version))
    while pending:
        for name, (_, _, inner) in known_fields(pending.pop()).items():
            names.add(name)
            if inner is not None:
                pending.append(inner)
    return frozenset(names)
