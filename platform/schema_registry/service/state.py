"""The state that the schemas topic adds up to: subjects, versions, ids, levels, modes. Pure: records are applied in the topic's
order.

The topic's order decides between two registries that write at the same time. A record that gives an id a second meaning, or a
version a second id, is refused by every reader (`apply` returns why). Its writer decides again on the state read since. In mode
IMPORT one schema may have several ids, because its original registry may have given it several.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..model.compatibility import DEFAULT_LEVEL, CompatibilityLevel
from ..model.mode import DEFAULT_MODE, Mode
from ..model.reference import Reference
from .records import LevelRecord, ModeRecord, RegistryRecord, SchemaRecord, SubjectDeleted, VersionRemoved

Content = tuple[str, tuple[Reference, ...], str]
"""The meaning of an id: canonical text, references, type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """One version of one subject."""

    subject: str
    version: int
    schema_id: int
    is_deleted: bool


class RegistryState:
    """The materialised topic. Not safe between threads: its owner holds a lock."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, StoredVersion]] = {}
        self._contents: dict[int, Content] = {}
        self._ids: dict[Content, int] = {}
        """The id that is returned for a schema: the first one it had."""
        self._uses: dict[int, set[tuple[str, int]]] = {}
        """Id → the versions that have it, soft-deleted ones included."""
        self._levels: dict[str | None, CompatibilityLevel] = {}
        self._modes: dict[str | None, Mode] = {}
        self._highest_id = 0

    def apply(self, record: RegistryRecord) -> str | None:
        """Apply one record of the topic. Return None, or why it is refused. Applying a record again changes nothing."""
        match record:
            case SchemaRecord():
                return self._apply_schema(record)
            case VersionRemoved():
                versions = self._subjects.get(record.subject, {})
                removed = versions.pop(record.version, None)
                if removed is not None:
                    self._uses[removed.schema_id].discard((record.subject, record.version))
                if not versions:
                    self._subjects.pop(record.subject, None)
            case SubjectDeleted():
                for version, stored in self._subjects.get(record.subject, {}).items():
                    if version <= record.version:
                        self._subjects[record.subject][version] = replace(stored, is_deleted=True)
            case LevelRecord():
                if record.level is None:
                    self._levels.pop(record.subject, None)
                else:
                    self._levels[record.subject] = record.level
            case ModeRecord():
                if record.mode is None:
                    self._modes.pop(record.subject, None)
                else:
                    self._modes[record.subject] = record.mode
        return None

    def _apply_schema(self, record: SchemaRecord) -> str | None:
        content = (record.schema, record.references, record.schema_type)
        held = self._contents.get(record.schema_id)
        if held is not None and held != content:
            return f"id {record.schema_id} belongs to another schema"
        is_second_id = held is None and self._ids.get(content, record.schema_id) != record.schema_id
        if is_second_id and self.mode(record.subject) is not Mode.IMPORT:
            return f"the schema has id {self._ids[content]} already, not {record.schema_id}"
        stored = self._subjects.get(record.subject, {}).get(record.version)
        if stored is not None and stored.schema_id != record.schema_id:
            return f"version {record.version} of {record.subject!r} has id {stored.schema_id} already, not {record.schema_id}"
        self._contents[record.schema_id] = content
        self._ids.setdefault(content, record.schema_id)
        self._highest_id = max(self._highest_id, record.schema_id)
        self._uses.setdefault(record.schema_id, set()).add((record.subject, record.version))
        self._subjects.setdefault(record.subject, {})[record.version] = StoredVersion(
            subject=record.subject, version=record.version, schema_id=record.schema_id, is_deleted=record.is_deleted
        )
        return None

    @property
    def highest_id(self) -> int:
        """Return the highest id ever assigned, permanently deleted ones included: an id is never assigned twice."""
        return self._highest_id

    def id_of(self, content: Content) -> int | None:
        """Return the id that this schema has, or had."""
        return self._ids.get(content)

    def content(self, schema_id: int) -> Content | None:
        """Return the content of an id; None if no version, soft-deleted ones included, has it (any more)."""
        return self._contents[schema_id] if self._uses.get(schema_id) else None

    def meaning(self, schema_id: int) -> Content | None:
        """Return the content that an id has or ever had; None for an id that was never assigned."""
        return self._contents.get(schema_id)

    def stored(self, subject: str, version: int) -> StoredVersion | None:
        """Return one version, also a soft-deleted one."""
        return self._subjects.get(subject, {}).get(version)

    def subjects(self, *, is_deleted_too: bool = False) -> list[str]:
        """Return the subjects that have a version, sorted."""
        return sorted(
            subject
            for subject, versions in self._subjects.items()
            if is_deleted_too or any(not stored.is_deleted for stored in versions.values())
        )

    def versions(self, subject: str, *, is_deleted_too: bool = False) -> list[StoredVersion]:
        """Return a subject's versions, ascending; empty for a subject that has none."""
        stored = self._subjects.get(subject, {})
        return [stored[version] for version in sorted(stored) if is_deleted_too or not stored[version].is_deleted]

    def next_version(self, subject: str) -> int:
        """Return the number of the subject's next version; soft-deleted ones keep theirs."""
        return max(self._subjects.get(subject, {}), default=0) + 1

    def using(self, schema_id: int) -> list[StoredVersion]:
        """Return every version, soft-deleted ones included, that has this id, by subject and number."""
        return [self._subjects[subject][version] for subject, version in sorted(self._uses.get(schema_id, ()))]

    def referring(self, subject: str, version: int, *, is_deleted_too: bool = False) -> list[StoredVersion]:
        """Return the versions whose schema references this one; soft-deleted ones only on request."""
        return [
            stored
            for one in self.subjects(is_deleted_too=is_deleted_too)
            for stored in self.versions(one, is_deleted_too=is_deleted_too)
            if any(
                reference.subject == subject and reference.version == version for reference in self._contents[stored.schema_id][1]
            )
        ]

    def referenced(self, references: Iterable[Reference]) -> list[str] | Reference:
        """Return the texts of all references, each after those that it needs; or the reference that cannot be resolved."""
        texts: dict[int, str] = {}
        waiting = [(reference, False) for reference in reversed(list(references))]
        while waiting:
            reference, is_expanded = waiting.pop()
            stored = self._subjects.get(reference.subject, {}).get(reference.version)
            if stored is None:
                return reference
            if stored.schema_id in texts:
                continue
            text, inner, _ = self._contents[stored.schema_id]
            if is_expanded or not inner:
                texts[stored.schema_id] = text
            else:
                # References point to earlier registrations, so they cannot form a cycle.
                waiting.append((reference, True))
                waiting.extend((one, False) for one in reversed(inner))
        return list(texts.values())

    def own_level(self, subject: str | None) -> CompatibilityLevel | None:
        """Return this subject's own level (None: the global one), or None if it has none."""
        return self._levels.get(subject)

    def level(self, subject: str) -> CompatibilityLevel:
        """Return the level that applies to a subject: its own, else the global one, else BACKWARD."""
        return self._levels.get(subject) or self._levels.get(None) or DEFAULT_LEVEL

    def own_mode(self, subject: str | None) -> Mode | None:
        """Return this subject's own mode (None: the global one), or None if it has none."""
        return self._modes.get(subject)

    def mode(self, subject: str | None) -> Mode:
        """Return the mode that applies to a subject (None: globally): its own, else the global one, else READWRITE."""
        return self._modes.get(subject) or self._modes.get(None) or DEFAULT_MODE

    def moded_subjects(self) -> list[str]:
        """Return the subjects that have a mode of their own, sorted."""
        return sorted(subject for subject in self._modes if subject is not None)

    def counts(self) -> dict[str, int]:
        """Return the number of each kind of entry, for health pages."""
        return {"subjects": len(self._subjects), "schemas": len(self._contents), "highest_id": self._highest_id}
