"""/schemas: schemas by id, and the versions that use them."""

from typing import Any

from ....client.callers import DESCRIBE
from ...model.opaque import SCHEMA_TYPES
from .. import refusals
from ..registry import SchemaRegistry
from .endpoints_subjects import Routes, content_of, schema_json, schema_words, version_words
from .http_exchange import Exchange
from .rights import may, readable


def routes(registry: SchemaRegistry) -> Routes:
    """Return method, path and endpoint of each."""

    def schemas(ask: Exchange) -> Any:
        prefix = (ask.word("subjectPrefix") or "").removeprefix(":*:")
        is_deleted_too, first = ask.flag("deleted"), -1 if ask.flag("latestOnly") else 0
        with registry.reading() as state:
            names = state.subjects(is_deleted_too=is_deleted_too)
        shown = set(readable(ask.caller, names))
        with registry.reading() as state:
            found = [
                stored
                for subject in state.subjects(is_deleted_too=is_deleted_too)
                if subject.startswith(prefix) and subject in shown
                for stored in state.versions(subject, is_deleted_too=is_deleted_too)[first:]
            ]
            # Built while the state is held: a version that is permanently deleted meanwhile would have no schema.
            return [version_words(registry, stored) for stored in ask.page(found)]

    def schema(ask: Exchange) -> Any:
        schema_id = _schema_id(ask)
        with registry.reading() as state:
            content, highest_id, using = content_of(state, schema_id), state.highest_id, state.using(schema_id)
        if ask.caller is not None and not _shown(ask, [one.subject for one in using]):
            raise refusals.schema_not_found(str(schema_id))
        words = schema_words(registry, content, is_resolved=ask.word("format") == "resolved")
        return {**words, **({"maxId": highest_id} if ask.flag("fetchMaxId") else {})}

    def schema_alone(ask: Exchange) -> Any:
        return schema_json(schema(ask)["schema"])

    def subjects_of(ask: Exchange) -> Any:
        return ask.page(sorted({words["subject"] for words in _using(ask)}))

    def versions_of(ask: Exchange) -> Any:
        return ask.page(_using(ask))

    def _using(ask: Exchange) -> list[dict[str, Any]]:
        schema_id, only, is_deleted_too = _schema_id(ask), ask.word("subject"), ask.flag("deleted")
        with registry.reading() as state:
            content_of(state, schema_id)
            using = state.using(schema_id)
        shown = _shown(ask, [stored.subject for stored in using])
        return [
            {"subject": stored.subject, "version": stored.version}
            for stored in using
            if (is_deleted_too or not stored.is_deleted) and only in (None, stored.subject) and stored.subject in shown
        ]

    def types(ask: Exchange) -> Any:
        return list(SCHEMA_TYPES)

    return [
        ("GET", "/schemas", schemas),
        ("GET", "/schemas/types", types),
        ("GET", "/schemas/ids/{id}", schema),
        ("GET", "/schemas/ids/{id}/schema", schema_alone),
        ("GET", "/schemas/ids/{id}/subjects", subjects_of),
        ("GET", "/schemas/ids/{id}/versions", versions_of),
    ]


def _shown(ask: Exchange, subjects: list[str]) -> set[str]:
    """Return those of a schema's subjects that the caller may read."""
    caller = ask.caller
    return {one for one in subjects if caller is None or may(caller, DESCRIBE, one)}


def _schema_id(ask: Exchange) -> int:
    """Return the path's id. A value that is not a number cannot be an existing id."""
    word = ask.path("id")
    if not (word.isascii() and word.isdigit()) or len(word) > 10:
        raise refusals.schema_not_found(word)
    return int(word)
