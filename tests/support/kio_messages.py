"""kio's own objects of control messages, made from mappings and encoded by kio. Ours is compared with them."""

import io
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, classify_field

from headrace.wire.messages.message_types import Side, message_type, names_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def made(side: Side, api_key: int, version: int, message: Mapping[str, Any]) -> Any:
    """Return kio's object of a mapping with Kafka's field names; fields that this version has not are left out."""
    return _made(message_type(side, api_key, version), message)


def written(entity: Any) -> bytes:
    """Return what kio writes of its object."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def _made(entity_type: Any, message: Mapping[str, Any]) -> Any:
    known = {name: field for field in fields(entity_type) for name in names_of(field)}
    return entity_type(**{known[name].name: _value(known[name], value) for name, value in message.items() if name in known})


def _value(field: Field[Any], value: Any) -> Any:
    shape = classify_field(field)
    if isinstance(shape, EntityField | EntityTupleField) and isinstance(value, Mapping):
        return _made(shape.type_, value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(_value(field, one) for one in value)
    if value is None:
        return None
    match field.metadata.get("kafka_type"):
        case "error_code":
            return ErrorCode(int(value))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else _EPOCH + timedelta(milliseconds=value)
    return value
