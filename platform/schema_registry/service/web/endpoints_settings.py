"""/config and /mode: the compatibility levels and the modes, globally and by subject."""

from typing import Any

from .. import refusals
from ..registry import SchemaRegistry
from .endpoints_subjects import Routes, subject_of
from .http_exchange import Exchange

CONFIG_WORDS = {"compatibility", "compatibilityLevel"}


def routes(registry: SchemaRegistry) -> Routes:
    """Return method, path and endpoint of each."""

    def level(ask: Exchange) -> Any:
        with registry.reading() as state:
            return {"compatibilityLevel": state.level("")}

    def subject_level(ask: Exchange) -> Any:
        subject, is_default_told = subject_of(ask), ask.flag("defaultToGlobal")
        with registry.reading() as state:
            own = state.level(subject) if is_default_told else state.own_level(subject)
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
        ask.flag("defaultToGlobal")
        return {"mode": registry.mode(None)}

    def subject_mode(ask: Exchange) -> Any:
        subject, is_default_told = subject_of(ask), ask.flag("defaultToGlobal")
        with registry.reading() as state:
            own = registry.mode(subject) if is_default_told else state.own_mode(subject)
        if own is None:
            raise refusals.no_mode(subject)
        return {"mode": own}

    def set_mode(ask: Exchange) -> Any:
        return {"mode": registry.set_mode(None, _mode_word(ask), is_forced=ask.flag("force"))}

    def set_subject_mode(ask: Exchange) -> Any:
        return {"mode": registry.set_mode(ask.path("subject"), _mode_word(ask), is_forced=ask.flag("force"))}

    def unset_mode(ask: Exchange) -> Any:
        return {"mode": registry.unset_mode(None, is_recursive=ask.flag("recursive"))}

    def unset_subject_mode(ask: Exchange) -> Any:
        return {"mode": registry.unset_mode(subject_of(ask), is_recursive=ask.flag("recursive"))}

    return [
        ("GET", "/config", level),
        ("PUT", "/config", set_level),
        ("DELETE", "/config", unset_level),
        ("GET", "/config/{subject}", subject_level),
        ("PUT", "/config/{subject}", set_subject_level),
        ("DELETE", "/config/{subject}", unset_subject_level),
        ("GET", "/mode", mode),
        ("PUT", "/mode", set_mode),
        ("DELETE", "/mode", unset_mode),
        ("GET", "/mode/{subject}", subject_mode),
        ("PUT", "/mode/{subject}", set_subject_mode),
        ("DELETE", "/mode/{subject}", unset_subject_mode),
    ]


def _level_word(ask: Exchange) -> object:
    words = ask.json()
    foreign = sorted(name for name, value in words.items() if name not in CONFIG_WORDS and value is not None)
    if foreign:
        raise refusals.not_permitted(f'the settings {", ".join(foreign)} are not kept here: "compatibility" alone is')
    return words.get("compatibility", words.get("compatibilityLevel"))


def _mode_word(ask: Exchange) -> object:
    # A null removes the mode; a body without the field is an error.
    return ask.json().get("mode", "")
