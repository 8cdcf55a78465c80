"""When a member acts on a changed list of its group. Pure: values in, times out; no clock, no ZooKeeper.

In a group of n members, n joins one by one are n times n rebalances, and nearly all partitions move in each of them. So a member
waits a little after a join for the next one; the more there is to move, the longer. A departure is acted on at once: its
partitions have no reader.
"""

from collections.abc import Collection

LONGEST_QUIET_MS = 1_000
"""So long after the last join, at most, the partitions are shared out."""
LONGEST_WAIT_MS = 3_000
"""Joins that never end are acted on so often."""
LONGEST_REST_MS = 100


def quiet_ms(members: int, moves: int) -> int:
    """Return how long (ms) to wait after the last join before `moves` partitions of one member move, in a group of this size."""
    return min(LONGEST_QUIET_MS, 10 * members + moves)


def rest_ms(members: int) -> int:
    """Return how long a member lets changes of its group's list gather before it reads the list."""
    return min(LONGEST_REST_MS, members)


class JoinBurst:
    """What one member remembers of the joins that it has not acted on."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._since_ms: int | None = None
        self._last_ms = 0

    def act_at_ms(self, members: Collection[str], moves: int, now_ms: int) -> int:
        """Return when the list of members is to be acted on, maybe a time that is over. To be called with each list that was
        read, and again at the returned time.
        """
        now_here = set(members)
        has_joins, has_departures = bool(now_here - self._known), bool(self._known - now_here)
        self._known = now_here
        if has_departures:
            self._since_ms = None
            return now_ms
        if has_joins:
            self._last_ms = now_ms
            self._since_ms = now_ms if self._since_ms is None else self._since_ms
        if self._since_ms is None:
            return now_ms
        due_ms = min(self._last_ms + quiet_ms(len(now_here), moves), self._since_ms + LONGEST_WAIT_MS)
        if due_ms <= now_ms:
            self._since_ms = None
        return due_ms
