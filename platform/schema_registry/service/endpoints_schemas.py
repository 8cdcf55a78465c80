"""/schemas, /config and /mode: schemas by id, the levels, and the one mode that there is."""

from typing import Any

from . import refusals
from .endpoints_subjects import Routes, content_of, schema_json, schema_words, version_words
from .http_exchange import Exchange
from .registry import SchemaRegistry

CONFIG_WORDS = {"compatibility", "compatibilityLevel"}


def routes(registry: SchemaRegistry) -> Routes:
    """Return method, path and endpoint of each."""

    def schemas(ask: Exchange) -> Any:
        prefix = (ask.word("subjectPrefix") or "").removeprefix(":*:")
        is_deleted_too = ask.flag("deleted")
        with registry.reading() as state:
            found = [
                stored
                for subject in state.subjects(is_deleted_too=is_deleted_too)
                if subject.startswith(prefix)
                for stored in state.versions(subject, is_deleted_too=is_deleted_too)[-1 if ask.flag("latestOnly") else 0 :]
            ]
        return [version_words(registry, stored) for stored in ask.page(found)]

    def schema(ask: Exchange) -> Any:
        with registry.reading() as state:
            content, highest_id = content_of(state, _schema_id(ask)), state.highest_id
        words = schema_words(registry, content, is_resolved=ask.word("format") == "resolved")
        return {**words, **({"maxId": highest_id} if ask.flag("fetchMaxId") else {})}

    def schema_alone(ask: Exchange) -> Any:
        return schema_json(schema(ask)["schema"])

    def subjects_of(ask: Exchange) -> Any:
        return ask.page(sorted({words["subject"] for words in _using(ask)}))

    def versions_of(ask: Exchange) -> Any:
        return ask.page(_using(ask))

    def _using(ask: Exchange) -> list[dict[str, Any]]:
        schema_id = _schema_id(ask)
        with registry.reading() as state:
            content_of(state, schema_id)
            using = state.using(schema_id)
        only = ask.word("subject")
        return [
            {"subject": stored.subject, "version": stored.version}
            for stored in using
            if (ask.flag("deleted") or not stored.is_deleted) and only in (None, stored.subject)
        ]

    def types(ask: Exchange) -> Any:
        return ["AVRO"]

    def level(ask: Exchange) -> Any:
        with registry.reading() as state:
            return {"compatibilityLevel": state.level("")}

    def subject_level(ask: Exchange) -> Any:
        subject = ask.path("subject")
        with registry.reading() as state:
            own = state.level(subject) if ask.flag("defaultToGlobal") else state.own_level(subject)
        if own is None:
            raise refusals.no_level(subject)
        return {"compatibilityLevel": own}

    def set_level(ask: Exchange) -> Any:
        return {"compatibility": registry.set_level(None, _level_word(ask))}

    def set_subject_level(ask: Exchange) -> Any:
        return {"compatibility": registry.set_level(ask.path("subject"), _level_word(ask))}

    def unset_level(ask: Exchange) -> Any:
        with registry.reading() as state:
            if state.own_level(None) is None:
                return {"compatibilityLevel": state.level("")}
        return {"compatibilityLevel": registry.unset_level(None)}

    def unset_subject_level(ask: Exchange) -> Any:
        return {"compatibilityLevel": registry.unset_level(ask.path("subject"))}

    def mode(ask: Exchange) -> Any:
        return {"mode": "READWRITE"}

    def subject_mode(ask: Exchange) -> Any:
        if not ask.flag("defaultToGlobal"):
            raise refusals.no_mode(ask.path("subject"))
        return {"mode": "READWRITE"}

    def set_mode(ask: Exchange) -> Any:
        if str(ask.json().get("mode", "")).upper() == "READWRITE":
            return {"mode": "READWRITE"}
        raise refusals.not_permitted("READWRITE is the only mode kept here")

    return [
        ("GET", "/schemas", schemas),
        ("GET", "/schemas/types", types),
        ("GET", "/schemas/ids/{id}", schema),
        ("GET", "/schemas/ids/{id}/schema", schema_alone),
        ("GET", "/schemas/ids/{id}/subjects", subjects_of),
        ("GET", "/schemas/ids/{id}/versions", versions_of),
        ("GET", "/config", level),
        ("PUT", "/config", set_level),
        ("DELETE", "/config", unset_level),
        ("GET", "/config/{subject}", subject_level),
        ("PUT", "/config/{subject}", set_subject_level),
        ("DELETE", "/config/{subject}", unset_subject_level),
        ("GET", "/mode", mode),
        ("PUT", "/mode", set_mode),
        ("GET", "/mode/{subject}", subject_mode),
        ("PUT", "/mode/{subject}", set_mode),
    ]


def _schema_id(ask: Exchange) -> int:
    """Return the path's id. What is no number is no id that exists."""
    word = ask.path("id")
    if not (word.isascii() and word.isdigit()) or len(word) > 10:
        raise refusals.schema_not_found(word)
    return int(word)


def _level_word(ask: Exchange) -> object:
    words = ask.json()
    foreign = sorted(name for name, value in words.items() if name not in CONFIG_WORDS and value is not None)
    if foreign:
        raise refusals.not_permitted(f'the settings {", ".join(foreign)} are not kept here: "compatibility" alone is')
    return words.get("compatibility", words.get("compatibilityLevel"))
