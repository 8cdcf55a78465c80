"""kio's own objects of control messages, made from mappings and written by kio: what ours is held against."""

import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from headrace.wire.message_types import Side, known_fields, message_type

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
    known = known_fields(entity_type)
    return entity_type(**{known[name][0]: _value(*known[name][1:], value) for name, value in message.items() if name in known})


def _value(kind: str, inner: type[Any] | None, value: Any) -> Any:
    if inner is not None and isinstance(value, Mapping):
        return _made(inner, value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(_value(kind, inner, one) for one in value)
    if value is None:
        return None
    match kind:
        case "error_code":
            return ErrorCode(int(value))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else _EPOCH + timedelta(milliseconds=value)
    return value
