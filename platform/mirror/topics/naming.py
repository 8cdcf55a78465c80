"""Which topics are copied, and under which names. Pure.

The words are MirrorMaker's: an *identity* policy keeps names, the *default* policy puts the source's alias in front of them. A
topic that came from the destination (`<its alias>.…`) is then not copied back.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from ...runtime.layout import is_internal
from ...wire.topic_name import fault_of
from ..errors import InvalidPattern, InvalidRename

SEPARATOR = "."


class Policy(Enum):
    """The value is the word on the command line."""

    IDENTITY = "identity"
    DEFAULT = "default"


class Naming:
    """The names of one mirror's topics. The default: every topic but internal ones, under its own name."""

    only: tuple[str, ...] | None = None
    """Topics that are called alike in both clusters, where no other can be wanted: then no other is asked about."""

    def __init__(
        self,
        topics: str = ".*",
        *,
        exclude: str = "",
        renames: Sequence[str] = (),
        policy: Policy = Policy.IDENTITY,
        source_alias: str = "source",
        destination_alias: str = "target",
        separator: str = SEPARATOR,
    ) -> None:
        """`topics`, `exclude`: regular expressions with commas between them, each for the whole name.

        `renames`: `FROM=TO`, FROM a regular expression for the whole name, TO may refer to its groups (`\\1`); the first that
        fits holds, before the policy. Raises `InvalidPattern`, `InvalidRename`.
        """
        self._topics = patterns(topics)
        self._exclude = patterns(exclude)
        self._renames = [_rename(words) for words in renames]
        self._prefix = f"{source_alias}{separator}" if policy is Policy.DEFAULT else ""
        self._came_from = f"{destination_alias}{separator}" if policy is Policy.DEFAULT else None

    def is_wanted(self, topic: str) -> bool:
        """Return whether the topic of the source is to be copied."""
        if is_internal(topic) or any(one.fullmatch(topic) for one in self._exclude):
            return False
        if self._came_from is not None and topic.startswith(self._came_from):
            return False
        return any(one.fullmatch(topic) for one in self._topics)

    def destination_name(self, topic: str) -> str:
        """Return the topic's name in the destination. Raises `InvalidRename` for one that no topic can have."""
        for pattern, replacement in self._renames:
            found = pattern.fullmatch(topic)
            if found is not None:
                name = found.expand(replacement)
                if (fault := fault_of(name)) is not None or is_internal(name):
                    raise InvalidRename(f"{pattern.pattern}={replacement}", fault or f"{name!r} is a name of the platform's own")
                return name
        return self._prefix + topic


def patterns(words: str) -> list[re.Pattern[str]]:
    """Return the regular expressions of a list with commas between them. Raises `InvalidPattern`."""
    compiled = []
    for pattern in filter(None, map(str.strip, words.split(","))):
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise InvalidPattern(pattern, str(error)) from error
    return compiled


def collisions(topics: Iterable[str], destination_name: Callable[[str], str]) -> dict[str, str]:
    """Return those of the topics that would share a destination topic with one before them (by name), and which one that is."""
    first: dict[str, str] = {}
    found = {}
    for topic in sorted(topics):
        there = destination_name(topic)
        if first.setdefault(there, topic) != topic:
            found[topic] = first[there]
    return found


def _rename(words: str) -> tuple[re.Pattern[str], str]:
    pattern, equals, replacement = words.partition("=")
    if not equals or not pattern or not replacement:
        raise InvalidRename(words, "it is not FROM=TO")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidRename(words, f"{pattern!r} is not a regular expression: {error}") from error
    groups = {int(one) for one in re.findall(r"\\(\d)", replacement)}
    if groups and max(groups) > compiled.groups:
        raise InvalidRename(words, f"{pattern!r} has {compiled.groups} groups")
    return compiled, replacement
