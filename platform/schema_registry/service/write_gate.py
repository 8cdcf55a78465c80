"""Whether this process may write to the schemas topic now. If not, it refuses, or names the process that may."""

from dataclasses import dataclass
from typing import Protocol

from ..errors import RegistryError
from . import refusals


class MustForward(RegistryError):
    """Another process leads: the request is to be sent there. Never seen by a client."""

    def __init__(self, leader_url: str) -> None:
        super().__init__(f"the leader is {leader_url}", error_code=50003)
        self.leader_url = leader_url


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFacts:
    """For the pages about health."""

    leader: str | None
    is_leader: bool
    epoch: int | None
    trouble: str | None = None


class WriteGate(Protocol):
    """Asked before each write."""

    @property
    def is_read_only(self) -> bool: ...

    def check(self) -> int | None:
        """Return under which epoch this process may write now; None without elections. Raises 42205, 50004, or
        `MustForward`.
        """
        ...

    def facts(self) -> LeaderFacts | None:
        """Return the leader; None without elections."""
        ...


class OpenGate:
    """A single registry, or several that the topic's order alone keeps apart."""

    is_read_only = False

    def check(self) -> int | None:
        return None

    def facts(self) -> LeaderFacts | None:
        return None


class ReadOnlyGate:
    """A registry of a mirrored topic: the mirror alone may write there."""

    is_read_only = True

    def __init__(self, topic: str, bootstrap: str) -> None:
        self._where = f"{topic} on {bootstrap}"

    def check(self) -> int | None:
        raise refusals.not_permitted(
            f"this registry is in mode READONLY: it serves {self._where}, which is written elsewhere: ask the registry there"
        )

    def facts(self) -> LeaderFacts | None:
        return None
