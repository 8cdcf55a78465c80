"""What an entity owes of one quota. Pure: readings of the clock go in as values.

One number is kept: until when what was used is paid for, at the rate of the quota (the generic cell rate algorithm). What an
entity did not use in the last second it may use now.
"""

from math import ceil

SAVED_MS = 1_000
MOST_OWED_MS = 30_000
"""What is owed beyond it is forgotten: clients give up a request that has no answer for 30 s."""


class Meter:
    """One quota of one entity."""

    __slots__ = ("_paid_until_ms", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        """A second."""
        self._paid_until_ms = 0.0

    def use(self, amount: float, now_ms: int) -> int:
        """Note what was used. Return how long the entity is to pause (ms)."""
        paid = max(self._paid_until_ms, now_ms - SAVED_MS) + amount * 1_000 / self.rate
        self._paid_until_ms = min(paid, now_ms + MOST_OWED_MS)
        return self.owed_ms(now_ms)

    def owed_ms(self, now_ms: int) -> int:
        """Return how long the entity is to pause."""
        return max(0, ceil(self._paid_until_ms - now_ms))
