"""kio's classes of control messages by API key and version, and what their fields are called. Pure.

A class is `kio.schema.<api>.v<version>.request|response`; fields are in snake case, durations are a `timedelta` without `_ms`."""

from dataclasses import Field, fields
from functools import cache
from typing import Any, Literal

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import EntityField, EntityTupleField, classify_field

from ..errors import UnsupportedVersion

Side = Literal["request", "response"]


@cache
def message_type(side: Side, api_key: int, version: int) -> type[Any]:
    """Return kio's class of the message. Raises `UnsupportedVersion` where there is none."""
    try:
        return load_request_schema(api_key, version) if side == "request" else load_response_schema(api_key, version)
    except KioIndexError:
        raise UnsupportedVersion(
            f"no {side} of API {api_key} version {version} is known here: ask ApiVersions which versions the server supports",
            api_key=api_key,
            version=version,
        ) from None


def names_of(field: Field[Any]) -> set[str]:
    """Return the names of a field in a mapping: its own, and one with `_ms` where it holds a duration or an instant."""
    is_time = str(field.metadata.get("kafka_type", "")).startswith(("timedelta", "datetime"))
    return {field.name, f"{field.name}_ms"} if is_time else {field.name}


@cache
def names_in_any_version(api_key: int) -> frozenset[str]:
    """Return every field name of an API in any version; other names are misspelt. Slow: called once per API."""
    names: set[str] = set()
    pending: list[Any] = []
    for version in schema_name_map[api_key_map[api_key]]:
        pending += (message_type("request", api_key, version), message_type("response", api_key, version))
    while pending:
        for field in fields(pending.pop()):
            names |= names_of(field)
            shape = classify_field(field)
            if isinstance(shape, EntityField | EntityTupleField):
                pending.append(shape.type_)
    return frozenset(names)
