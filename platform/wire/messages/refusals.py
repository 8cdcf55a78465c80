"""Responses that say 'not served', in the format of any API and version that Kafka has.

Only a response with a top-level error code can say so: the code is set, everything else is empty. For other responses there is
no refusal."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any

from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, is_optional

from ..errors import ErrorCode, UnsupportedVersion
from . import control

REMEMBERED = 1_000
"""Cached responses. Kafka has some 300 versions of messages; a client may ask for four billion."""

_EMPTY: Mapping[str, Any] = {
    "bool": False, "string": "", "bytes": b"", "records": None, "uuid": None, "float64": 0.0, "error_code": ErrorCode.NONE,
    "datetime_i64": 0,
}  # fmt: skip


@lru_cache(REMEMBERED)
def refusal(api_key: int, version: int, error: ErrorCode, why: str) -> tuple[bytes, bool] | None:
    """Return the response's body, and whether its header has tagged fields; None when the response has no error code."""
    try:
        message_type = control.message_type("response", api_key, version)
    except UnsupportedVersion:
        return None
    if "error_code" not in message_type.__dataclass_fields__:
        return None
    message = {**empty_fields(message_type), "error_code": error}
    if "error_message" in message:
        message["error_message"] = why
    return control.encode_response(api_key, version, message), bool(message_type.__flexible__)


def empty_fields(entity_type: Any) -> dict[str, Any]:
    """Return every required field, empty, for `control.encode_response`."""
    values: dict[str, Any] = {}
    for field in fields(entity_type):
        shape = classify_field(field)
        if field.default is not MISSING or field.default_factory is not MISSING:
            if field.name == "error_message":
                values[field.name] = None
        elif isinstance(shape, EntityTupleField | PrimitiveTupleField):
            values[field.name] = ()
        elif is_optional(field):
            values[field.name] = None
        elif isinstance(shape, EntityField):
            values[field.name] = empty_fields(shape.type_)
        else:
            values[field.name] = _EMPTY.get(str(field.metadata.get("kafka_type")), 0)
    return values
