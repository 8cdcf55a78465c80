"""Caches Metadata responses, and the topics in them. Lives on the loop thread."""

from ..partitions.catalog import Catalog, TopicEntry

Pieces = dict[str, tuple[TopicEntry, bytes]]
"""By name: the entry that a topic was written from, and its bytes in a response."""


class MetadataAnswers:
    """A response is valid as long as the catalog is the same object, a topic's bytes as long as its entry is.

    Bounded: responses by their bytes and those of their requests, topics by the catalog's number of them."""

    CAPACITY_BYTES = 8 << 20
    FORGOTTEN_TOPICS = 1_000
    """Topics beyond the catalog's number that may be remembered. With more, all are forgotten."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._answers: dict[object, bytes] = {}
        self._held_bytes = 0
        self._pieces: dict[int, Pieces] = {}
        self._alive: frozenset[int] = frozenset()

    def get(self, key: object, catalog: Catalog) -> bytes | None:
        return self._answers.get(key) if catalog is self._catalog else None

    def put(self, key: object, catalog: Catalog, answer: bytes, key_bytes: int = 0) -> None:
        cost = len(answer) + key_bytes
        if catalog is not self._catalog or self._held_bytes + cost > self.CAPACITY_BYTES:
            self._catalog = catalog
            self._answers.clear()
            self._held_bytes = 0
            known = len(catalog.topics)
            for version in [one for one, pieces in self._pieces.items() if len(pieces) > known + self.FORGOTTEN_TOPICS]:
                del self._pieces[version]
        if cost <= self.CAPACITY_BYTES:
            self._answers[key] = answer
            self._held_bytes += cost

    def pieces(self, version: int, alive: frozenset[int]) -> Pieces:
        """Return the remembered topics; the caller adds to them. All are forgotten when other brokers are `alive`."""
        if alive != self._alive:
            self._alive = alive
            self._pieces.clear()
        return self._pieces.setdefault(version, {})
