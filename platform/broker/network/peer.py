"""Who is at the other end of a connection. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection."""

    address: str
    """Host and port, for logs."""
    listener: str
    """Name of the listener that it connected to: responses name the brokers' addresses on it."""

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]
