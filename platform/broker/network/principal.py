"""Who a client is: Kafka's principal. Pure."""

from dataclasses import dataclass

USER = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """A type and a name, written `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client that did not say who it is."""
