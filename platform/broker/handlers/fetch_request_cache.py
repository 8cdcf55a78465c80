"""Remembers decoded fetches of one partition: a consumer sends the same request again and again, only with other offsets.

Lives on the loop thread. Bounded in number and by the size of each request. A full cache is cleared."""

from ...wire.messages.fetch import FetchRequest
from ...wire.messages.single_partition_fetch import SinglePartitionFetch, masked, recognise

MOST_KNOWN = 4_096
LARGEST_BYTES = 512
"""A longer request is decoded in full each time."""


class FetchRequestCache:
    """Decoded requests by version and masked bytes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], SinglePartitionFetch] = {}
        self.parked_partitions = 0
        """The number of partitions for which all parked fetches together wait. The fetch handler counts them."""

    def __len__(self) -> int:
        return len(self._known)

    def get(self, version: int, body: bytes) -> SinglePartitionFetch | None:
        """Return the decoded request of `body`, None for a new one. Hot: once a fetch."""
        return self._known.get((version, masked(version, body)))

    def learn(self, version: int, body: bytes, request: FetchRequest) -> None:
        """Remember that `body` decodes to `request`. A request with a session is not repeated byte for byte."""
        is_plain = request.session_epoch == -1 and request.session_id == 0
        one = recognise(version, body, request) if is_plain and len(body) <= LARGEST_BYTES else None
        if one is not None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[version, masked(version, body)] = one
