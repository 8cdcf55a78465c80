"""When the undecided windows of each topic are judged again though nothing is new of them. Pure: values in, values out.

A turn looks once at each topic with undecided windows, and at the windows of those topics alone for which something has passed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..model.waits import Moments, Subject, Waits, earliest, has_passed, quiet_until_ms


class Hearing(Moments, Protocol):
    """What all topics hang on, too."""

    def standing(self) -> object:
        """Return something that differs when the audit has begun to listen anew, or hears nothing any more, or hears again."""


@dataclass(slots=True)
class _Topic:
    windows: dict[int, Waits] = field(default_factory=dict)
    """Undecided window → what it waits for."""
    waits: dict[Subject, int] = field(default_factory=dict)
    """Of all windows, what passes first."""
    quiet_until_ms: int | None = None
    """Up to which value of HEARD none of them can pass; None: to be found anew, or it does not depend on time alone."""
    is_due: bool = False
    """All windows are to be judged."""


class Looks:
    """Belongs to the judge, whose lock guards it."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._standing: object = None

    def __contains__(self, topic: str) -> bool:
        """Return whether the topic has undecided windows."""
        return topic in self._topics

    def begin(self, topics: Iterable[str]) -> None:
        """Have all windows of these topics judged, and of no others."""
        self._topics = {topic: _Topic(is_due=True) for topic in topics}

    def note(self, topic: str, judged: Iterable[int], undecided: Mapping[int, Waits], *, is_all: bool) -> None:
        """Note that these windows were judged, and what the undecided ones wait for. `is_all`: the topic has no others."""
        mine = self._topics.get(topic) or _Topic()
        if is_all:
            mine.windows.clear()
        for start in judged:
            mine.windows.pop(start, None)
        mine.windows.update(undecided)
        mine.waits = earliest(mine.windows.values())
        mine.quiet_until_ms = None
        mine.is_due = mine.is_due and not is_all
        if mine.windows or mine.is_due:
            self._topics[topic] = mine
        else:
            self._topics.pop(topic, None)

    def due(self, moments: Hearing) -> dict[str, Collection[int] | None]:
        """Return topic → the windows that are to be judged now; None: all that are undecided."""
        standing = moments.standing()
        if standing != self._standing:
            self._standing = standing
            for mine in self._topics.values():
                mine.is_due = True
        heard_ms = moments.heard_ms()
        found: dict[str, Collection[int] | None] = {}
        for topic, mine in self._topics.items():
            if mine.is_due:
                found[topic] = None
            elif mine.waits and not (mine.quiet_until_ms is not None and heard_ms <= mine.quiet_until_ms):
                if has_passed(mine.waits, topic, moments):
                    found[topic] = [start for start, waits in mine.windows.items() if has_passed(waits, topic, moments)]
                else:
                    mine.quiet_until_ms = quiet_until_ms(mine.waits, topic, moments)
        return found
