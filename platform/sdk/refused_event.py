"""A refused event as the payload of its quarantine record. Pure."""

import json
from dataclasses import fields, is_dataclass
from typing import Any

from .errors import repr_of


def payload_of(event: Any) -> bytes:
    """Return a refused event (a mapping or an instance) as JSON. What JSON cannot express is written as `repr` does."""
    try:
        is_instance = is_dataclass(event) and not isinstance(event, type)
        given = [(field.name, getattr(event, field.name)) for field in fields(event)] if is_instance else event
        return json.dumps(dict(given), default=repr_of).encode("utf-8", "backslashreplace")
    except Exception:
        return repr_of(event).encode("utf-8", "backslashreplace")
