"""Reads the values of one table of agent.toml, and collects its faults, each with what to do. Pure."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..errors import HeadraceError
from ..wire.topic_name import fault_of as topic_fault


class SectionReader:
    """Reads one table's values and collects its faults."""

    def __init__(self, words: Mapping[str, Any], where: str) -> None:
        self.words = words
        self.where = where
        self.faults: list[str] = []

    def fault(self, name: str, what: str) -> None:
        self.faults.append(f"{self.where}: {name}: {what}")

    def text(self, name: str, *, needed: bool = False) -> str:
        value = self.words.get(name, "")
        if not isinstance(value, str):
            self.fault(name, f"{value!r} is not text: write it in quotes")
            return ""
        if needed and not value:
            self.fault(name, "it is missing")
        return str(value)

    def texts(self, name: str, *, needed: bool = False) -> tuple[str, ...]:
        value = self.words.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            self.fault(name, f'{value!r} is not a list of texts: write ["…"]')
            return ()
        if needed and not value:
            self.fault(name, "it is missing: give a list of paths")
        return tuple(value)

    def number(self, name: str, least: int) -> int:
        value = self.words[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.fault(name, f"{value!r}: give a whole number from {least} on")
            return least
        return value

    def numbers(self, leasts: Mapping[str, int]) -> dict[str, int]:
        """Return the whole numbers that are given, of these names → least values."""
        return {name: self.number(name, least) for name, least in leasts.items() if name in self.words}

    def topic(self) -> str:
        topic = self.text("topic", needed=True)
        if topic and (fault := topic_fault(topic)) is not None:
            self.fault("topic", fault)
        return topic

    def name_or(self, default: str) -> str:
        """Return the section's name; it becomes a part of names of sources and runs."""
        name = self.text("name") or default
        if "/" in name or "#" in name:
            self.fault("name", f"{name!r} begins the names of sources: leave out / and #")
        return name

    def application_or(self, default: str) -> str:
        """Return the name of the events' producer in the audit."""
        application = self.text("application") or default
        if "/" in application:
            self.fault("application", f"{application!r} is a part of the audit's instance name: leave out the /")
        return application

    def refuse_others(self, known: Collection[str]) -> None:
        """Name every word that is not a setting of this section."""
        for word in self.words:
            if word not in known:
                self.fault(word, f"there is no such setting; known are {', '.join(sorted(known))}")

    def flag(self, name: str) -> bool:
        value = self.words.get(name, False)
        if not isinstance(value, bool):
            self.fault(name, f"{value!r}: give true or false")
        return value is True

    def choice(self, name: str, choices: Sequence[str], default: str | None) -> str | None:
        value = self.words.get(name, default)
        if value not in choices:
            self.fault(name, f"{'it is missing' if value is None else repr(value)}: give one of {', '.join(choices)}")
            return None
        return str(value)

    def tried(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` returns, None where it raises."""
        try:
            return make()
        except (HeadraceError, re.error, OSError, ValueError) as error:
            self.fault(name, str(error))
            return None
