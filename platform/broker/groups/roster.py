"""The members of a group, its pending members, and the memory of both. Pure; knows nothing of generations."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ...wire.errors import ErrorCode
from .member import Member
from .messages import ProtocolOffer

PENDING_MEMBER_BYTES = 300
"""Memory of a pending member besides its id."""


class Roster:
    """Members by id in the order of their joins, static ones by instance too, and pending members."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """Static members: instance id to member id."""
        self.pending_members: dict[str, int] = {}
        """Ids that were given to clients and have not joined yet, and when they are forgotten."""
        self.protocol_type: str | None = None
        self.held_bytes = 0
        self._offered: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.members)

    @property
    def is_deserted(self) -> bool:
        """Whether it has neither members nor pending ones."""
        return not self.members and not self.pending_members

    def find(self, member_id: str, instance_id: str | None) -> Member | ErrorCode:
        """Return the member that sent a request, or the error to answer it with."""
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return self.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def could_agree(self, protocol_type: str, offers: Iterable[ProtocolOffer], *, apart_from: Member | None = None) -> bool:
        """Return whether these offers and those of all other members have a protocol in common."""
        others = len(self.members) - (apart_from is not None)
        if others == 0:
            return True
        own = set() if apart_from is None else _names(apart_from.offers)
        return protocol_type == self.protocol_type and any(
            self._offered[offer.name] - (offer.name in own) == others for offer in offers
        )

    def add_pending(self, member_id: str, until_ms: int) -> None:
        """Add an id that was given to a client which has not joined yet."""
        self.pending_members[member_id] = until_ms
        self.held_bytes += PENDING_MEMBER_BYTES + len(member_id)

    def forget_pending(self, member_id: str) -> None:
        """Forget such an id, if there is one."""
        if self.pending_members.pop(member_id, None) is not None:
            self.held_bytes -= PENDING_MEMBER_BYTES + len(member_id)

    def enter(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first one sets the group's protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.forget_pending(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self._count(member, 1)

    def replace(self, old: Member, new: Member, protocol_type: str) -> None:
        """Put `new` in the place of `old`, under the same instance id."""
        self.members = {one.member_id: one for one in (new if one is old else one for one in self.members.values())}
        self.instances[str(new.instance_id)] = new.member_id
        self._count(old, -1)
        self._count(new, 1)
        if len(self.members) == 1:
            self.protocol_type = protocol_type

    def renew(self, member: Member, offers: Iterable[ProtocolOffer], protocol_type: str) -> None:
        """Replace a member's offers."""
        self._count(member, -1)
        member.offers = tuple(offers)
        self._count(member, 1)
        if len(self.members) == 1:
            self.protocol_type = protocol_type

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Set each member's assignment; an empty one for members that are not named."""
        for member in self.members.values():
            assignment = assignments.get(member.member_id, b"")
            self.held_bytes += len(assignment) - len(member.assignment)
            member.assignment = assignment

    def drop(self, member: Member) -> None:
        """Remove a member."""
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        self._count(member, -1)

    def offers(self) -> Sequence[Sequence[ProtocolOffer]]:
        """Return each member's offers."""
        return [member.offers for member in self.members.values()]

    def _count(self, member: Member, sign: int) -> None:
        self.held_bytes += sign * member.held_bytes
        for name in _names(member.offers):
            self._offered[name] += sign
            if not self._offered[name]:
                del self._offered[name]


def _names(offers: Iterable[ProtocolOffer]) -> set[str]:
    return {offer.name for offer in offers}
