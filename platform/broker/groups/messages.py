"""The inputs and outputs of the group protocol's decisions. Pure values; no bytes of the wire.

A ticket identifies a request that is not answered yet. The caller gives one and gets it back with the answer, in `replies`. The
deciding files never call a ticket: answering may run the same client's next request in the middle of a decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...wire.errors import ErrorCode

Ticket = Callable[[Any], None]
"""Takes the JoinAnswer or SyncAnswer of its request."""


OFFER_BYTES = 150
"""Memory of an offer besides its name and metadata."""


class ProtocolOffer(NamedTuple):
    """One assignment protocol that a member supports, with its metadata for the leader."""

    name: str
    metadata: bytes

    @property
    def held_bytes(self) -> int:
        return OFFER_BYTES + len(self.name) + len(self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A client wants to be in the group."""

    group_id: str
    member_id: str = ""
    """Empty for a client without an id."""
    instance_id: str | None = None
    """The name of a static member, which outlives its process."""
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    offers: Sequence[ProtocolOffer]
    """In the member's order of preference."""
    asks_for_id_first: bool = True
    """Whether a client without an id is first sent back with one (JoinGroup 4 and later)."""

    @property
    def size_bytes(self) -> int:
        """The memory of the member that it adds, roughly."""
        words = (self.group_id, self.member_id, self.instance_id or "", self.client_id, self.client_host, self.protocol_type)
        return sum(map(len, words)) + sum(offer.held_bytes for offer in self.offers)


class JoinedMember(NamedTuple):
    """A member as its leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The outcome of a join."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader_id: str = ""
    member_id: str = ""
    members: Sequence[JoinedMember] = ()
    """All members for the leader, none for the others."""


class Leaver(NamedTuple):
    """A member to remove from a group, named by one of the two ids or both."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member asks for its assignment; the leader's request carries everybody's."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    """None where the client is too old to send it."""
    assignments: Sequence[tuple[str, bytes]] = ()
    """Member ids and their assignments; empty unless the leader sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """A member's assignment, opaque."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


Reply = tuple[Ticket, JoinAnswer | SyncAnswer]
