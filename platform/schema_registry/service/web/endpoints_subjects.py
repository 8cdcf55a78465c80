"""/subjects and /compatibility: register, look up, list, delete, and check compatibility."""

import json
from typing import Any

from ...errors import InvalidSchema
from ...model.avro_parser import finite, no_constant
from ...model.opaque import AVRO
from ...model.reference import Reference
from .. import refusals
from ..registry import SchemaRegistry, check_subject
from ..state import Content, RegistryState, StoredVersion
from .http_exchange import Endpoint, Exchange
from .rights import readable

Routes = list[tuple[str, str, Endpoint]]


def routes(registry: SchemaRegistry) -> Routes:
    """Return method, path and endpoint of each."""

    def subjects(ask: Exchange) -> Any:
        prefix = (ask.word("subjectPrefix") or "").removeprefix(":*:")
        is_deleted_too, is_deleted_only = ask.flag("deleted"), ask.flag("deletedOnly")
        with registry.reading() as state:
            present, everything = state.subjects(), state.subjects(is_deleted_too=True)
        chosen = everything if is_deleted_too else present
        if is_deleted_only:
            there = set(present)
            chosen = [subject for subject in everything if subject not in there]
        return ask.page(readable(ask.caller, [subject for subject in chosen if subject.startswith(prefix)]))

    def versions(ask: Exchange) -> Any:
        subject = ask.path("subject")
        is_deleted_too, is_deleted_only = ask.flag("deleted"), ask.flag("deletedOnly")
        with registry.reading() as state:
            stored = state.versions(subject, is_deleted_too=is_deleted_too or is_deleted_only)
        if not stored:
            raise refusals.subject_not_found(subject)
        return ask.page([one.version for one in stored if one.is_deleted or not is_deleted_only])

    def version(ask: Exchange) -> Any:
        stored = registry.version(ask.path("subject"), ask.path("version"), is_deleted_too=ask.flag("deleted"))
        return version_words(registry, stored, is_resolved=ask.word("format") == "resolved")

    def version_schema(ask: Exchange) -> Any:
        return schema_json(version(ask)["schema"])

    def referenced_by(ask: Exchange) -> Any:
        stored = registry.version(ask.path("subject"), ask.path("version"), is_deleted_too=True)
        with registry.reading() as state:
            return ask.page(sorted({one.schema_id for one in state.referring(stored.subject, stored.version)}))

    def register(ask: Exchange) -> Any:
        text, references, kind = ask.schema()
        wanted_id, number = ask.body_number("id"), ask.body_number("version")
        schema_id = registry.register(
            ask.path("subject"),
            text,
            references,
            kind,
            is_normalized=ask.flag("normalize"),
            version=_chosen(number),
            wanted_id=_chosen(wanted_id),
        )
        return {"id": schema_id}

    def look_up(ask: Exchange) -> Any:
        subject, is_deleted_too = ask.path("subject"), ask.flag("deleted")
        text, references, kind = ask.schema()
        with registry.reading() as state:
            if not state.versions(subject, is_deleted_too=is_deleted_too):
                raise refusals.subject_not_found(subject)
        schema = registry.parse(text, references, kind, is_normalized=ask.flag("normalize"))
        found = registry.find(subject, schema, is_deleted_too=is_deleted_too)
        if found is None:
            raise refusals.schema_not_found(f"under subject '{subject}'")
        return version_words(registry, found)

    def with_metadata(ask: Exchange) -> Any:
        # Metadata is not stored here, so no version has the requested metadata.
        subject, is_deleted_too = ask.path("subject"), ask.flag("deleted")
        with registry.reading() as state:
            if not state.versions(subject, is_deleted_too=is_deleted_too):
                raise refusals.subject_not_found(subject)
        raise refusals.schema_not_found(f"with metadata under subject '{subject}' (none is kept here)")

    def delete_subject(ask: Exchange) -> Any:
        return registry.delete_subject(ask.path("subject"), is_permanent=ask.flag("permanent"))

    def delete_version(ask: Exchange) -> Any:
        return registry.delete_version(ask.path("subject"), ask.path("version"), is_permanent=ask.flag("permanent"))

    def compatible_with(ask: Exchange) -> Any:
        subject, word = subject_of(ask), ask.path("version")
        text, references, kind = ask.schema()
        schema = registry.parse(text, references, kind, is_normalized=ask.flag("normalize"))
        with registry.reading() as state:
            level, is_known = state.level(subject), bool(state.versions(subject))
        if not is_known and word in ("latest", "-1"):
            # The first version is always compatible, so a check may come before the first registration.
            return _verdict([], ask)
        return _verdict(registry.why_incompatible(subject, schema, level, against=registry.version(subject, word)), ask)

    def compatible_with_all(ask: Exchange) -> Any:
        subject = subject_of(ask)
        text, references, kind = ask.schema()
        schema = registry.parse(text, references, kind, is_normalized=ask.flag("normalize"))
        with registry.reading() as state:
            level = state.level(subject)
        return _verdict(registry.why_incompatible(subject, schema, level), ask)

    return [
        ("GET", "/subjects", subjects),
        ("POST", "/subjects/{subject}", look_up),
        ("DELETE", "/subjects/{subject}", delete_subject),
        ("GET", "/subjects/{subject}/metadata", with_metadata),
        ("GET", "/subjects/{subject}/versions", versions),
        ("POST", "/subjects/{subject}/versions", register),
        ("GET", "/subjects/{subject}/versions/{version}", version),
        ("DELETE", "/subjects/{subject}/versions/{version}", delete_version),
        ("GET", "/subjects/{subject}/versions/{version}/schema", version_schema),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby", referenced_by),
        ("POST", "/compatibility/subjects/{subject}/versions", compatible_with_all),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", compatible_with),
    ]


def subject_of(ask: Exchange) -> str:
    """Return the path's subject, for endpoints that also answer for a subject that does not exist. Raises 42208 for an invalid
    name.
    """
    subject = ask.path("subject")
    check_subject(subject)
    return subject


def _chosen(number: int | None) -> int | None:
    """Return the number in a body. 0 and -1 leave the choice to the registry, as Confluent's clients mean them."""
    return number if number is not None and number > 0 else None


def _verdict(reasons: list[str], ask: Exchange) -> dict[str, Any]:
    return {"is_compatible": not reasons, **({"messages": reasons} if ask.flag("verbose") else {})}


def version_words(registry: SchemaRegistry, stored: StoredVersion, *, is_resolved: bool = False) -> dict[str, Any]:
    """Return a version in the API's JSON form."""
    with registry.reading() as state:
        content = content_of(state, stored.schema_id)
    words: dict[str, Any] = {"subject": stored.subject, "version": stored.version, "id": stored.schema_id}
    words.update(schema_words(registry, content, is_resolved=is_resolved))
    if stored.is_deleted:
        words["deleted"] = True
    return words


def schema_words(registry: SchemaRegistry, content: Content, *, is_resolved: bool = False) -> dict[str, Any]:
    """Return a schema in the API's JSON form: without a type if it is AVRO. If resolved, its references are written in
    full.
    """
    if is_resolved and content[2] == AVRO:
        return {"schema": registry.resolved(content)}
    text, references, kind = content
    words: dict[str, Any] = {"schema": text} if kind == AVRO else {"schemaType": kind, "schema": text}
    return {**words, **({"references": _references(references)} if references else {})}


def content_of(state: RegistryState, schema_id: int) -> Content:
    """Return the content of an id. Raises 40403."""
    content = state.content(schema_id)
    if content is None:
        raise refusals.schema_not_found(str(schema_id))
    return content


def schema_json(text: str) -> Any:
    """Return the schema itself as the response's JSON; a .proto file, or a number that is none in JSON, as a JSON string."""
    try:
        return json.loads(text, parse_constant=no_constant, parse_float=finite)
    except (ValueError, InvalidSchema):
        return text


def _references(references: tuple[Reference, ...]) -> list[dict[str, str | int]]:
    return [reference.words() for reference in references]
