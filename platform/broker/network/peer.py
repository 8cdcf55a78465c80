"""Who is at the other end of a connection. Lives on the loop thread."""

from collections.abc import Callable
from typing import Final, Protocol

from .principal import ANONYMOUS, Principal


class Guard(Protocol):
    """Decides which requests a connection may send while its login is wanted, under way, or may end."""

    @property
    def deadline_ms(self) -> int | None:
        """Monotonic: when the connection is closed. None: not."""
        ...

    @property
    def largest_frame(self) -> int | None:
        """The largest request in bytes. None: as for every connection."""
        ...

    def check(self, api_key: int) -> None:
        """Return when a request of this API may be answered. Raises: FrameRefused; the connection is then closed."""
        ...


class Peer:
    """The other end of a connection. One for each connection; `principal` and `guard` change when it logs in."""

    __slots__ = ("address", "guard", "listener", "mute", "principal")

    def __init__(self, address: str, listener: str, principal: Principal = ANONYMOUS, guard: Guard | None = None) -> None:
        self.address: Final = address
        """Host and port, for logs."""
        self.listener: Final = listener
        """Name of the listener that it connected to: responses name the brokers' addresses on it."""
        self.principal = principal
        """Who it is now. A login changes it: a handler that answers later reads it first."""
        self.guard = guard
        """None: it may send every request. Hot: read once a request or run."""
        self.mute: Callable[[int], None] | None = None
        """Answers no further request of its connection for so many milliseconds. None: the connection is closed."""

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]
