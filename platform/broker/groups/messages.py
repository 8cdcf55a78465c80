"""What goes into the group protocol's decisions and what comes out of them. Pure values; no bytes of the wire.

A ticket stands for a request that is not answered yet: whoever asks gives one, and gets it back beside the answer. This room
never calls it: answering may bring the next request of the same client in at once, in the middle of a decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...wire.errors import ErrorCode

Ticket = Callable[[Any], None]
"""Takes a JoinAnswer or a SyncAnswer, whichever was asked for."""


OFFER_BYTES = 150
"""What an offer takes besides its name and metadata."""


class ProtocolOffer(NamedTuple):
    """One way of dividing the work that a member can take part in, with what it tells the leader for it."""

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
    """Empty for a newcomer."""
    instance_id: str | None = None
    """The name of a static member, which outlives its process."""
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    offers: Sequence[ProtocolOffer]
    """Best liked first."""
    asks_for_id_first: bool = True
    """Whether a newcomer is sent back with an id before it is let in (JoinGroup 4 and later)."""

    @property
    def size_bytes(self) -> int:
        """What a member that comes of it will hold in memory, roughly."""
        words = (self.group_id, self.member_id, self.instance_id or "", self.client_id, self.client_host, self.protocol_type)
        return sum(map(len, words)) + sum(offer.held_bytes for offer in self.offers)


class JoinedMember(NamedTuple):
    """A member as its leader hears of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """What becomes of a join."""

    error: ErrorCode = ErrorCode.NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader_id: str = ""
    member_id: str = ""
    members: Sequence[JoinedMember] = ()
    """All of them for the leader, none for the others."""


class Leaver(NamedTuple):
    """Somebody who is to leave a group, named by one of the two, or both."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member wants its share; the leader brings everybody's."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    """None where the client is too old to say."""
    shares: Sequence[tuple[str, bytes]] = ()
    """Member id and its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """A member's share, opaque."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


Reply = tuple[Ticket, JoinAnswer | SyncAnswer]
