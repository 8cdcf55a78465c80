"""The key of an event, by which its partition is chosen: a field's value, or what a function of the event returns. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from .errors import EventRefused

Key = str | Callable[[Any], bytes | str | None]
"""A field's name, or a function of the event. Text is taken as UTF-8; None is not a key."""


def key_function(key: Key) -> Callable[[Mapping[str, Any]], bytes | None]:
    """Return what makes a key of an event; it raises `EventRefused` for a value that cannot be one."""

    def key_of(event: Mapping[str, Any]) -> bytes | None:
        field = key if isinstance(key, str) else ""
        try:
            value = event.get(key) if isinstance(key, str) else key(event)
            if isinstance(value, str):
                return value.encode()
            if value is None or isinstance(value, bytes):
                return value
            if isinstance(value, int) and isinstance(key, str) and not isinstance(value, bool):
                return str(value).encode()
        except Exception as error:  # whatever an application's function raises is this event's fault
            raise EventRefused(field, event, f"an event that the key's function takes ({error!r})") from error
        raise EventRefused(field, value, "a key: text, bytes or None" + (", or a whole number" if field else ""))

    return key_of
