"""One member of a group: who it is, what it can do, what it is waiting for. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from .messages import JoinedMember, JoinRequest, ProtocolOffer, Ticket

OBJECT_BYTES = 600
"""What a member takes besides its texts and bytes."""


@dataclass(slots=True, kw_only=True)
class Member:
    """A member, from its join until it leaves or falls silent."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    offers: Sequence[ProtocolOffer]
    is_id_told: bool
    """Whether the client can know its member id: one that cannot never comes back under it."""
    assignment: bytes = b""
    has_joined: bool = False
    """It has asked to be in the coming generation, whether or not it can still hear the answer."""
    must_sync: bool = False
    """It was told of the generation and has not asked for its share yet."""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    silent_at_ms: int | None = None
    """When its session ends unless it is heard of; None while an answer is owed to it."""

    @classmethod
    def of(cls, request: JoinRequest, member_id: str) -> "Member":
        """Return the member that comes of a join, its id as given."""
        return cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            offers=tuple(request.offers),
            is_id_told=member_id == request.member_id,
        )

    @property
    def held_bytes(self) -> int:
        """What it takes in memory, roughly."""
        words = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        offered = sum(offer.held_bytes for offer in self.offers)
        return OBJECT_BYTES + sum(map(len, words)) + offered + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what it tells for a protocol; empty when it does not offer that one."""
        return next((offer.metadata for offer in self.offers if offer.name == protocol), b"")

    def as_joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(self.member_id, self.instance_id, self.metadata(protocol))
