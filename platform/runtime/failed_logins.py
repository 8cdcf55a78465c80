"""Counts failed logins by address and user, so that passwords cannot be guessed quickly. Pure."""

MOST_FAILURES = 100
WINDOW_MS = 10_000
"""After so many failures within this time, an address may not log in as that user until the time is over."""
MOST_COUNTED = 10_000
"""Pairs of address and user. Beyond it the oldest is forgotten."""


class Failures:
    """Users that exist and those that do not are counted alike."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}
        """Number of failures, and when the first of them was (ms)."""

    def __len__(self) -> int:
        return len(self._counted)

    def add(self, host: str, user: str, now_ms: int) -> None:
        """Count a failure."""
        count, since_ms = self._counted.pop((host, user), (0, now_ms))
        if now_ms - since_ms >= WINDOW_MS:
            count, since_ms = 0, now_ms
        if len(self._counted) >= MOST_COUNTED:
            del self._counted[next(iter(self._counted))]
        self._counted[host, user] = count + 1, since_ms

    def too_many(self, host: str, user: str, now_ms: int) -> bool:
        """Return whether logins as this user from there are refused now."""
        count, since_ms = self._counted.get((host, user), (0, now_ms))
        return count >= MOST_FAILURES and now_ms - since_ms < WINDOW_MS
