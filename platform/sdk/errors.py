"""What the SDK refuses, and why. Passing failures of the cluster are the client's errors; here are those of the event and its
logger.
"""

from typing import Any

from ..errors import HeadraceError

_LONGEST_VALUE = 120


def repr_of(value: object) -> str:
    """Return `repr(value)`. An application's own `__repr__` may fail, and must not make the refusal fail."""
    try:
        return repr(value)
    except Exception as error:
        return f"<a {type(value).__name__} whose repr fails: {type(error).__name__}>"


class SdkError(HeadraceError):
    """The root of this room's errors."""


class TopicRefused(SdkError):
    """The topic's name can be no topic's, or its broker rewrites the events' times: nothing was announced, no event sent."""


class LoggerMisconfigured(SdkError):
    """The logger's settings do not say where its events go."""


class SchemaRefused(SdkError):
    """The schema cannot be a schema of events: not Avro, or without event time and server."""


class EventRefused(SdkError):
    """An event does not fit its schema."""

    def __init__(self, field: str, value: Any, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        shown = repr_of(value)
        if len(shown) > _LONGEST_VALUE:
            shown = shown[:_LONGEST_VALUE] + "…"
        where = f"field {field!r}" if field else "the event"
        super().__init__(f"{where} is {shown} of type {type(value).__name__}, expected {expected}")


class LoggerClosed(SdkError):
    """The logger was closed; events logged now would be in no report."""


class LoggerForked(SdkError):
    """The logger was made in another process: its threads and sockets did not come along."""

    def __init__(self, made_in: int, used_in: int) -> None:
        super().__init__(
            f"this EventLogger was made in process {made_in} and is used in {used_in}: make one in each process, after the fork"
        )


class NotSealed(SdkError):
    """The logger ended without telling the audit so: its open windows stay UNKNOWN until its deadline there has passed."""
