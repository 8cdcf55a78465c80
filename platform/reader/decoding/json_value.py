"""A decoded event as JSON values. Pure."""

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


def json_value(value: Any) -> Any:
    """Return a decoded Avro value as JSON: times as ISO 8601, bytes as base64, what JSON has no number for as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return {str(name): json_value(one) for name, one in value.items()}
        case list() | tuple():
            return [json_value(one) for one in value]
        case Decimal() | UUID():
            return str(value)
    return str(value)
