"""A registry's refusal of a logger's schema, in the words of who logs: what, where, why, what to do; and by what name an event is
lost that was not taken. Pure.
"""

from ...audit.model.messages import DROPPED_UNPROMISED, SEND_FAILED
from ...client.errors import BufferFull, RecordTooLarge, Unpromised
from ...errors import HeadraceError
from ...schema_registry.client import IncompatibleSchema, InvalidSchema

NAME_MISMATCH = "NAME_MISMATCH"
"""Ours and Confluent's registry call it so when a record's name is another."""


def in_words(error: HeadraceError, *, topic: str, subject: str, record: str, registry_url: str) -> HeadraceError:
    """Return the refusal as the application is to read it, of the same class; errors of other kinds as they are.

    `record` is the full name of the schema that was refused.
    """
    if isinstance(error, InvalidSchema):
        return InvalidSchema(
            f"the schema {record} of topic {topic!r} is not a schema for the registry at {registry_url}: {_reason(error)}. "
            "Correct the schema; event_schema() makes one that is valid",
            error_code=error.error_code,
        )
    if not isinstance(error, IncompatibleSchema):
        return error
    if NAME_MISMATCH in str(error):
        what = f"topic {topic!r} holds events of another schema than {record}"
        advice = (
            f"Log these events to a topic of their own, or log the registered kind: `headrace schema get {subject}` prints it"
        )
    else:
        what = f"the schema {record} cannot read the events that topic {topic!r} holds already"
        advice = (
            "Give each new field a default (nullable() does) and keep the names and types of the others; "
            f"`headrace schema get {subject}` prints the registered schema, `headrace schema register {subject} FILE --dry-run` "
            "tries another"
        )
    text = f"{what}: the registry at {registry_url} refused it for subject {subject!r}: {_reason(error)}. {advice}"
    return IncompatibleSchema(text, error_code=error.error_code)


def _reason(error: HeadraceError) -> str:
    """Return the registry's own words, without the request that they answer."""
    asked, colon, said = str(error).partition(": ")
    return (said if colon and asked.startswith("POST ") else str(error)).rpartition(" (error ")[0] or str(error)


def loss_name(error: HeadraceError) -> str:
    """Return by what name an event is lost that was not taken."""
    match error:
        case BufferFull():
            return "dropped_buffer_full"
        case RecordTooLarge():
            return "dropped_too_large"
        case Unpromised():
            return DROPPED_UNPROMISED
        case _:
            return SEND_FAILED
