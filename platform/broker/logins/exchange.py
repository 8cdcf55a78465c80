"""What each mechanism's server side is, for the state of a login. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Challenge:
    """The client is to send another message."""

    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The client is this user."""

    message: bytes = b""
    user: str
    expires_ms: int | None = None
    """Wall clock: when what it showed ends. None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The client did not prove who it is."""

    why: str
    """For the log, never for the client."""
    user: str = ""


Step: TypeAlias = Challenge | Accepted | Refused
Work: TypeAlias = Callable[[], Step]
"""Takes milliseconds or waits for the network: a worker calls it."""


class Exchange(Protocol):
    """One login with one mechanism."""

    def take(self, message: bytes) -> Step | Work:
        """Take the client's next message. Malformed ones are refused."""
        ...

    @property
    def user(self) -> str:
        """Who the client says it is; empty before it has said so."""
        ...
