"""When an outage is logged: when it begins, at long intervals while it lasts, and when it ends. Pure: `now_ms` comes in.

A logger tries again several times a second; the application's log needs the address and the reason only once.
"""

from dataclasses import dataclass

REMIND_MS = 300_000


@dataclass(slots=True)
class _Outage:
    began_ms: int
    remind_at_ms: int


class Outages:
    """What is away now, by name; for one thread."""

    def __init__(self, remind_ms: int = REMIND_MS) -> None:
        self._remind_ms = remind_ms
        self._outages: dict[str, _Outage] = {}

    def failed(self, what: str, now_ms: int) -> bool:
        """Note that `what` did not do its part; return whether that is to be reported."""
        outage = self._outages.get(what)
        if outage is None:
            self._outages[what] = _Outage(now_ms, now_ms + self._remind_ms)
            return True
        if now_ms < outage.remind_at_ms:
            return False
        outage.remind_at_ms = now_ms + self._remind_ms
        return True

    def works(self, what: str, now_ms: int) -> int | None:
        """Note that `what` does its part; return for how long (ms) it was away, None where it was not."""
        outage = self._outages.pop(what, None)
        return None if outage is None else now_ms - outage.began_ms

    def __bool__(self) -> bool:
        """Return whether anything is away."""
        return bool(self._outages)
