"""When a replica needs no tick. Pure.

A tick repeats what may have been lost and looks at what has become late. A replica in which nothing is under way, and nothing has
changed for some ticks, is at rest: it is ticked once in `EVERY` rounds, so that thousands of idle partitions cost little.
Its leader counts it as heard while its process polls (`events.FollowersHeard`).
"""

from collections.abc import Hashable

CALM_TICKS = 8
"""Ticks that show the same before a replica is at rest: what was lost is repeated several times first."""
EVERY = 20
"""Of so many rounds, a replica at rest is ticked in one."""


class Rest:
    """Of one replica."""

    __slots__ = ("_calm", "_seen", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._seen: Hashable = None
        self._calm = 0

    def after_tick(self, facts: Hashable) -> None:
        """Take what the replica shows after a tick; None while something is under way."""
        self._calm = self._calm + 1 if facts is not None and facts == self._seen else 0
        self._seen = facts
        self.is_on = self._calm >= CALM_TICKS

    def end(self) -> None:
        """Something has happened: the next round ticks."""
        self.is_on = False
