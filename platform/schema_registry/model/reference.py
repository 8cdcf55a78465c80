"""References to types that another subject's schema defines, and registered schemas. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The type `name` is defined by `version` of `subject`."""

    name: str
    subject: str
    version: int

    def words(self) -> dict[str, str | int]:
        """Return the reference in the API's JSON form."""
        return {"name": self.name, "subject": self.subject, "version": self.version}

    @classmethod
    def of(cls, words: "Mapping[str, Any] | Reference") -> "Reference":
        """Return the reference of the API's JSON. Raises `InvalidSchema` with what is wrong in it."""
        if isinstance(words, Reference):
            return words
        if not isinstance(words, Mapping):
            raise InvalidSchema(f"reference {words!r} is not an object: give name, subject and version")
        name, subject, version = words.get("name"), words.get("subject"), words.get("version")
        if not (isinstance(name, str) and name and isinstance(subject, str) and subject):
            raise InvalidSchema(f"reference {dict(words)!r} lacks a name or a subject: give name, subject and version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise InvalidSchema(f"reference {name!r} to {subject!r} has version {version!r}: give a version from 1")
        return cls(name=name, subject=subject, version=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """One version of one subject, as the registry returns it."""

    subject: str
    version: int
    schema_id: int
    schema: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatibilityAnswer:
    """Whether a schema could be registered; if not, each path and reason."""

    is_compatible: bool
    messages: tuple[str, ...] = ()
