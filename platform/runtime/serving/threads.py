"""A bound of threads that belongs to an event loop, made where none runs yet."""

from anyio import CapacityLimiter


class Threads:
    """At most so many threads work on what is given them with `anyio.to_thread.run_sync(…, limiter=threads.limiter())`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limiter: CapacityLimiter | None = None

    def limiter(self) -> CapacityLimiter:
        """Called on the event loop, to which it belongs from then on."""
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._most)
        return self._limiter
