"""What a subject's mode allows, and the conditions for switching to IMPORT. Pure. Source: Confluent's registry.

Stricter than Confluent's in two points: IMPORT never gives a second meaning to an id, or to a version. This includes schemas that
were permanently deleted, because records written with them may still be read.
"""

from ..model.compatibility import CompatibilityLevel
from ..model.mode import Mode
from ..model.opaque import AVRO
from . import refusals
from .records import SchemaRecord, VersionRemoved
from .state import Content, RegistryState

ID_LIMIT = (1 << 31) - 1
"""The highest schema id and version: four bytes, signed, in every client."""


def check_writable(state: RegistryState, subject: str | None) -> None:
    """Raise 42205 if the subject (None: the global mode) is read-only."""
    mode = state.mode(subject)
    if mode.is_read_only:
        raise refusals.not_permitted(f"{_named(subject)} is in mode {mode}: PUT /mode sets it")


def check_comparable(state: RegistryState, subject: str, level: CompatibilityLevel) -> None:
    """Raise 42205 for a level other than NONE where a version is of a type that cannot be compared."""
    for stored in state.versions(subject):
        content = state.content(stored.schema_id)
        if content is not None and content[2] != AVRO and level is not CompatibilityLevel.NONE:
            raise refusals.only_none(subject, content[2], level)


def check_registering(state: RegistryState, subject: str, wanted_id: int | None) -> None:
    """Raise 42205 if the mode does not allow a new version: an id chosen by the caller needs IMPORT, any other READWRITE."""
    check_writable(state, subject)
    is_import = state.mode(subject) is Mode.IMPORT
    if wanted_id is not None and not is_import:
        raise refusals.not_permitted(f"{_named(subject)} is not in mode IMPORT: leave the id out, it is given here")
    if wanted_id is None and is_import:
        raise refusals.not_permitted(f"{_named(subject)} is in mode IMPORT: give the schema's id")


def imported(state: RegistryState, subject: str, content: Content, schema_id: int, version: int | None) -> SchemaRecord:
    """Return the record of a version whose id, and perhaps number, the caller chose. Raises 42205 if one is in use."""
    if schema_id > ID_LIMIT:
        raise refusals.not_permitted(f"id {schema_id} is too high: the highest is {ID_LIMIT}")
    held = state.meaning(schema_id)
    if held is not None and held != content:
        raise refusals.not_permitted(f"id {schema_id} belongs to another schema, and never gets a second one")
    number = version or state.next_version(subject)
    there = state.stored(subject, number)
    if there is not None and there.schema_id != schema_id:
        raise refusals.not_permitted(
            f"version {number} of '{subject}' has id {there.schema_id} already: delete it permanently first"
        )
    return SchemaRecord(
        subject=subject, version=number, schema_id=schema_id, schema=content[0], references=content[1], schema_type=content[2]
    )


def cleared_for_import(state: RegistryState, subject: str | None) -> list[VersionRemoved]:
    """Return the records that empty the subject (None: every subject) for IMPORT: they permanently delete soft-deleted versions.

    Raises 42205 if a version is present, 42206 if a soft-deleted one is referenced.
    """
    subjects = state.subjects(is_deleted_too=True) if subject is None else [subject]
    present = [one for one in subjects if state.versions(one)]
    if present:
        raise refusals.not_permitted(
            f"IMPORT begins with {'no subjects' if subject is None else 'an empty subject'}, and there is {present[0]!r}: "
            "delete it, or add force=true to import beside it"
        )
    gone = [stored for one in subjects for stored in state.versions(one, is_deleted_too=True)]
    going = {(stored.subject, stored.version) for stored in gone}
    for stored in gone:
        by = [
            f"{one.subject} version {one.version}"
            for one in state.referring(stored.subject, stored.version, is_deleted_too=True)
            if (one.subject, one.version) not in going
        ]
        if by:
            raise refusals.still_referenced(stored.subject, stored.version, by)
    return [VersionRemoved(subject=stored.subject, version=stored.version) for stored in reversed(gone)]


def mode_of(word: object) -> Mode | None:
    """Return the mode with this name; None for the JSON null, which removes the mode. Raises 42204."""
    if word is None:
        return None
    try:
        return Mode(word.upper() if isinstance(word, str) else "")
    except ValueError as error:
        raise refusals.invalid_mode(word) from error


def _named(subject: str | None) -> str:
    return "the registry" if subject is None else f"subject '{subject}'"
