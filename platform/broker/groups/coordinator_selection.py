"""Which broker coordinates which group: the one with the highest hash of group and broker (rendezvous hashing).

When a broker comes or goes, only the groups that it takes or held move. Pure: all brokers that know the same brokers agree."""

import hashlib
from collections.abc import Collection


def coordinator_of(group_id: str, broker_ids: Collection[int]) -> int:
    """Return the id of the broker, among these, that coordinates the group. `broker_ids` is not empty."""
    return max(broker_ids, key=lambda broker_id: (_weight(group_id, broker_id), broker_id))


def _weight(group_id: str, broker_id: int) -> bytes:
    return hashlib.blake2b(f"{broker_id} {group_id}".encode(), digest_size=8).digest()
