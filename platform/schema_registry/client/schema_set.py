"""Schemas as a set of values: all of a registry, of an exported file, or of a folder of a repository.

    FOLDER/clicks.avsc               subject clicks-value, version 1 (a name ending in -value or -key is the subject itself)
    FOLDER/clicks-value/3.avsc       subject clicks-value, version 3
    ….references.json, beside it     its references: [{"name": …, "subject": …, "version": …}]

The exported file is JSON; its layout is in `docs/FORMATS.md`. References keep name, subject and version everywhere.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InvalidSchema, RegistryError
from ..model.compatibility import DEFAULT_LEVEL, CompatibilityLevel
from ..model.reference import Reference
from ..model.schema import Schema, parse_schema

FORMAT = "headrace-schemas"
FORMAT_VERSION = 1
SUFFIX = ".avsc"
MOST_FILES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVersion:
    """One version of a subject."""

    version: int
    schema_id: int | None
    """None in a folder: ids are the registry's."""
    schema: str
    references: tuple[Reference, ...] = ()
    schema_type: str = "AVRO"
    is_deleted: bool = False


@dataclass(slots=True, kw_only=True)
class SchemaSet:
    """Subjects with their versions, ascending, and their levels."""

    subjects: dict[str, list[SetVersion]] = field(default_factory=dict)
    levels: dict[str | None, CompatibilityLevel] = field(default_factory=dict)
    """A subject's own level; of None: the global one."""

    def level(self, subject: str) -> CompatibilityLevel:
        return self.levels.get(subject) or self.levels.get(None) or DEFAULT_LEVEL

    def present(self, subject: str) -> list[SetVersion]:
        return [one for one in self.subjects.get(subject, ()) if not one.is_deleted]

    def parsed(self, one: SetVersion) -> Schema:
        """Return a version with its references. Raises InvalidSchema, also for a reference that leads nowhere."""
        texts: dict[tuple[str, int], str] = {}
        self._collect(one.references, texts, set())
        return parse_schema(one.schema, one.references, list(texts.values()))

    def _collect(self, references: Sequence[Reference], texts: dict[tuple[str, int], str], open_: set[tuple[str, int]]) -> None:
        for reference in references:
            key = (reference.subject, reference.version)
            if key in texts:
                continue
            if key in open_:
                raise InvalidSchema(f"version {reference.version} of {reference.subject!r} references itself")
            found = next((one for one in self.subjects.get(reference.subject, ()) if one.version == reference.version), None)
            if found is None:
                raise InvalidSchema(
                    f"the reference {reference.name!r} leads to version {reference.version} of {reference.subject!r}, which is "
                    "not there"
                )
            self._collect(found.references, texts, open_ | {key})
            texts[key] = found.schema


def subject_of(path: Path) -> str:
    """Return the subject that a schema file is for."""
    stem = path.name.removesuffix(SUFFIX)
    return stem if stem.endswith(("-value", "-key")) else f"{stem}-value"


def topic_of(subject: str) -> str | None:
    """Return the topic of a subject that is named after one (Confluent's TopicNameStrategy)."""
    for suffix in ("-value", "-key"):
        if subject.endswith(suffix) and len(subject) > len(suffix):
            return subject.removesuffix(suffix)
    return None


def file_version(path: Path, version: int) -> SetVersion:
    """Return the schema of a file. Raises RegistryError if it, or its references' file, cannot be read."""
    beside = path.with_name(path.name.removesuffix(SUFFIX) + ".references.json")
    try:
        text = path.read_text(encoding="utf-8")
        listed = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else []
    except (OSError, ValueError) as error:
        raise RegistryError(f"{path}: cannot be read: {error}") from error
    if not isinstance(listed, list):
        raise RegistryError(f'{beside}: is no list of {{"name", "subject", "version"}}')
    return SetVersion(version=version, schema_id=None, schema=text, references=tuple(Reference.of(one) for one in listed))


def schema_files(paths: Iterable[Path]) -> list[Path]:
    """Return the schema files among the paths and below folders, sorted. Raises RegistryError for a path that is none."""
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found.update(one for one in path.rglob(f"*{SUFFIX}") if one.is_file())
        elif path.is_file():
            found.add(path)
        else:
            raise RegistryError(f"{path}: there is no such file or folder")
        if len(found) > MOST_FILES:
            raise RegistryError(f"{path}: more than {MOST_FILES} schema files: name the folders one by one")
    return sorted(found)


def of_folder(folder: Path) -> SchemaSet:
    """Return the schemas of a folder. Raises RegistryError."""
    found = SchemaSet()
    for path in schema_files([folder]):
        is_version = path.name.removesuffix(SUFFIX).isdigit() and path.parent != folder
        subject = path.parent.name if is_version else subject_of(path)
        number = int(path.name.removesuffix(SUFFIX)) if is_version else 1
        found.subjects.setdefault(subject, []).append(file_version(path, number))
    for subject, versions in found.subjects.items():
        versions.sort(key=lambda one: one.version)
        if len({one.version for one in versions}) < len(versions):
            raise RegistryError(f"{folder}: two files are version {versions[0].version} of {subject}: remove one")
    return found


def words(schemas: SchemaSet) -> dict[str, Any]:
    """Return the set in the exported file's form."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "compatibility": schemas.levels.get(None),
        "subjects": [
            {
                "subject": subject,
                "compatibility": schemas.levels.get(subject),
                "versions": [
                    {
                        "version": one.version,
                        "id": one.schema_id,
                        "schemaType": one.schema_type,
                        "schema": one.schema,
                        "references": [reference.words() for reference in one.references],
                        "deleted": one.is_deleted,
                    }
                    for one in versions
                ],
            }
            for subject, versions in sorted(schemas.subjects.items())
        ],
    }


def of_words(exported: Any, *, origin: str) -> SchemaSet:
    """Return the set of an exported file. Raises RegistryError, naming the place."""
    if not isinstance(exported, dict) or exported.get("format") != FORMAT:
        raise RegistryError(f"{origin}: is no export of schemas: `headrace schema export` writes one")
    if exported.get("format_version") != FORMAT_VERSION:
        raise RegistryError(f"{origin}: has format version {exported.get('format_version')!r}, {FORMAT_VERSION} is known here")
    found = SchemaSet()
    try:
        if exported.get("compatibility"):
            found.levels[None] = CompatibilityLevel(exported["compatibility"])
        for subject in exported["subjects"]:
            name = str(subject["subject"])
            if subject.get("compatibility"):
                found.levels[name] = CompatibilityLevel(subject["compatibility"])
            found.subjects[name] = sorted((_version(one) for one in subject["versions"]), key=lambda one: one.version)
    except (KeyError, TypeError, ValueError, AttributeError, RegistryError) as error:
        raise RegistryError(f"{origin}: is damaged: {type(error).__name__}: {error}") from error
    return found


def of_file(path: Path) -> SchemaSet:
    """Return the set of an exported file. Raises RegistryError."""
    try:
        exported = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RegistryError(f"{path}: cannot be read: {error}") from error
    return of_words(exported, origin=str(path))


def _version(one: dict[str, Any]) -> SetVersion:
    if not isinstance(one["schema"], str):
        raise TypeError("a schema is not text")
    return SetVersion(
        version=int(one["version"]),
        schema_id=None if one.get("id") is None else int(one["id"]),
        schema=one["schema"],
        references=tuple(Reference.of(reference) for reference in one.get("references") or ()),
        schema_type=one.get("schemaType") or "AVRO",
        is_deleted=bool(one.get("deleted")),
    )
