"""Which protocol a generation uses. Pure. Source: KIP-62's description of JoinGroup."""

from collections import Counter
from collections.abc import Sequence

from .messages import ProtocolOffer

Offers = Sequence[ProtocolOffer]


def chosen(members: Sequence[Offers]) -> str | None:
    """Return the protocol with the most votes, None when the members have none in common. Each member votes for the first of
    its offers that all have in common. The first member's order decides a tie.
    """
    if not members:
        return None
    possible = set.intersection(*({offer.name for offer in offers} for offers in members))
    if not possible:
        return None
    votes = Counter(next(offer.name for offer in offers if offer.name in possible) for offers in members)
    order = [offer.name for offer in members[0] if offer.name in possible]
    return max(order, key=lambda name: (votes[name], -order.index(name)))
