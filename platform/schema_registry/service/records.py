"""The records of the schemas topic: the content of each key and value. Pure: bytes in, values out.

The JSON is Confluent's own (`keytype` SCHEMA, CONFIG, MODE, DELETE_SUBJECT, NOOP), so that their tools read the topic. A SCHEMA
record with a null value means that the version was permanently deleted.
"""

import json
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidSchema, RegistryError
from ..model.compatibility import CompatibilityLevel
from ..model.mode import Mode
from ..model.opaque import AVRO
from ..model.reference import Reference


class NotARegistryRecord(RegistryError):
    """The bytes are not a record that a registry writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRecord:
    """A version of a subject, or its soft deletion (`is_deleted`)."""

    subject: str
    version: int
    schema_id: int
    schema: str
    references: tuple[Reference, ...] = ()
    schema_type: str = AVRO
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRemoved:
    """A version that was permanently deleted."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRecord:
    """The compatibility level of a subject, or the global one (`subject` None); `level` None removes it."""

    subject: str | None
    level: CompatibilityLevel | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRecord:
    """The mode of a subject, or the global one (`subject` None); `mode` None removes it."""

    subject: str | None
    mode: Mode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectDeleted:
    """Every version of the subject up to `version` is soft-deleted."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Noop:
    """Changes nothing. A new leader writes it for the epoch in its header."""


NOOP = Noop()
RegistryRecord = SchemaRecord | VersionRemoved | LevelRecord | ModeRecord | SubjectDeleted


def encode(record: RegistryRecord | Noop) -> tuple[bytes, bytes | None]:
    """Return the record's key and value."""
    match record:
        case Noop():
            return _bytes({"keytype": "NOOP", "magic": 0}), None
        case SchemaRecord():
            words: dict[str, Any] = {
                "subject": record.subject,
                "version": record.version,
                "id": record.schema_id,
                "schemaType": record.schema_type,
                "schema": record.schema,
                "deleted": record.is_deleted,
            }
            if record.references:
                words["references"] = [reference.words() for reference in record.references]
            return _schema_key(record.subject, record.version), _bytes(words)
        case VersionRemoved():
            return _schema_key(record.subject, record.version), None
        case LevelRecord():
            key = _bytes({"keytype": "CONFIG", "subject": record.subject, "magic": 0})
            return key, None if record.level is None else _bytes({"compatibilityLevel": record.level.value})
        case ModeRecord():
            key = _bytes({"keytype": "MODE", "subject": record.subject, "magic": 0})
            return key, None if record.mode is None else _bytes({"subject": record.subject, "mode": record.mode.value})
        case SubjectDeleted():
            key = _bytes({"keytype": "DELETE_SUBJECT", "subject": record.subject, "magic": 0})
            return key, _bytes({"subject": record.subject, "version": record.version})


def decode(key: bytes | memoryview | None, value: bytes | memoryview | None) -> RegistryRecord | None:
    """Return the record; None for one without meaning here (NOOP, a key type of later versions). Raises `NotARegistryRecord`."""
    try:
        about = json.loads(bytes(key or b""))
        # Only an absent value means None: the JSON null is not a record's value.
        value_json: dict[str, Any] = {} if value is None else json.loads(bytes(value))
        match about["keytype"]:
            case "SCHEMA" if value is None:
                return VersionRemoved(subject=_text(about, "subject"), version=_number(about, "version"))
            case "SCHEMA":
                return SchemaRecord(
                    subject=_text(about, "subject"),
                    version=_number(about, "version"),
                    schema_id=_number(value_json, "id"),
                    schema=_text(value_json, "schema"),
                    references=tuple(Reference.of(one) for one in value_json.get("references") or ()),
                    schema_type=_type(value_json),
                    is_deleted=bool(value_json.get("deleted")),
                )
            case "CONFIG":
                level = None if value is None else CompatibilityLevel(_text(value_json, "compatibilityLevel"))
                return LevelRecord(subject=_subject(about), level=level)
            case "MODE":
                return ModeRecord(subject=_subject(about), mode=None if value is None else Mode(_text(value_json, "mode")))
            case "DELETE_SUBJECT" if value is not None:
                return SubjectDeleted(subject=_text(about, "subject"), version=_number(value_json, "version"))
            case _:
                return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidSchema) as error:
        raise NotARegistryRecord(
            f"key {bytes(key or b'')[:80]!r} is not a registry record: {type(error).__name__}: {error}"
        ) from error


def _schema_key(subject: str, version: int) -> bytes:
    return _bytes({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def _bytes(words: dict[str, Any]) -> bytes:
    return json.dumps(words, separators=(",", ":")).encode()


def _subject(about: dict[str, Any]) -> str | None:
    """Return the subject, None for all: Confluent's own tools write a null, or omit the name."""
    return None if about.get("subject") is None else _text(about, "subject")


def _type(words: dict[str, Any]) -> str:
    """Return the schema's type; Confluent's own records leave it out for Avro."""
    return AVRO if words.get("schemaType") is None else _text(words, "schemaType")


def _text(words: dict[str, Any], name: str) -> str:
    value = words[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}")
    return value


def _number(words: dict[str, Any], name: str) -> int:
    value = words[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TypeError(f"{name} is {value!r}")
    return value
