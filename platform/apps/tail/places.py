"""Where a topic is read from: `earliest`, `latest`, a time, or an offset."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from ...client.connection.cluster import Cluster
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ...errors import HeadraceError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PlaceRefused(HeadraceError):
    """The word names no place."""

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(f"{word!r} is no place: earliest, latest, a time such as 2026-11-23T08:00:00Z, or an offset")


def starts(cluster: Cluster, topic: str, partitions: Collection[int], word: str) -> dict[int, int]:
    """Return where each partition is read from. Raises PlaceRefused, ClientError."""
    if word.isascii() and word.isdigit():
        return dict.fromkeys(partitions, int(word))
    moment = {"earliest": EARLIEST, "latest": LATEST}.get(word)
    moment = time_ms(word) if moment is None else moment
    found = log_offsets(cluster, {TopicPartition(topic, one): moment for one in partitions})
    return {name.partition: offset for name, offset in found.items()}


def time_ms(word: str) -> int:
    """Return an ISO 8601 time in ms since the epoch; without a zone it is UTC. Raises PlaceRefused."""
    try:
        at = datetime.fromisoformat(word)
        return ((at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise PlaceRefused(word) from None
