"""One member of a group: its ids, the protocols it offers, its parked requests. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from .messages import JoinedMember, JoinRequest, ProtocolOffer, Ticket

OBJECT_BYTES = 600
"""Memory of a member besides its texts and bytes."""


@dataclass(slots=True, kw_only=True)
class Member:
    """A member, from its join until it leaves or its session ends."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    offers: Sequence[ProtocolOffer]
    knows_its_id: bool
    """Whether the client can know its member id. One that cannot will never come back under it."""
    assignment: bytes = b""
    has_joined: bool = False
    """It has joined for the next generation, whether or not it can still receive the answer."""
    must_sync: bool = False
    """It received the generation's JoinGroup answer and has not sent SyncGroup yet."""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    silent_at_ms: int | None = None
    """When its session ends unless it sends a request; None while one of its requests is parked."""

    @classmethod
    def of(cls, request: JoinRequest, member_id: str) -> "Member":
        """Return the member of a join request, under the given id."""
        return cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            offers=tuple(request.offers),
            knows_its_id=member_id == request.member_id,
        )

    @property
    def held_bytes(self) -> int:
        """Its memory, roughly."""
        words = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        offered = sum(offer.held_bytes for offer in self.offers)
        return OBJECT_BYTES + sum(map(len, words)) + offered + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata for a protocol; empty when it does not offer that one."""
        return next((offer.metadata for offer in self.offers if offer.name == protocol), b"")

    def as_joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(self.member_id, self.instance_id, self.metadata(protocol))
