"""How long to wait before trying again. Pure: the caller sleeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Doubling waits between `first_ms` and `longest_ms`."""

    first_ms: int = 50
    longest_ms: int = 2_000

    def wait_ms(self, attempt: int) -> int:
        """Return the wait before attempt `attempt` (0 is the first retry), never above `longest_ms`."""
        return min(self.longest_ms, self.first_ms << min(attempt, 20))
