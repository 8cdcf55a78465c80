"""Metadata responses that were written before, and the topics in them. Lives on the loop thread."""

from ..catalog import Catalog, TopicEntry

Pieces = dict[str, tuple[TopicEntry, bytes]]
"""Topics as they stand in an answer, each with the entry that it was written from."""


class MetadataAnswers:
    """Answers that hold as long as the catalog is the same object, and topics in them that hold as long as their entry is.

    Bounded: answers by their bytes and those of what was asked, topics by those of the catalog."""

    CAPACITY_BYTES = 8 << 20
    FORGOTTEN_TOPICS = 1_000
    """So many topics that are no more may be remembered before all are forgotten."""

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
        """Return what is remembered of topics, to be added to. All is forgotten when other brokers are `alive`."""
        if alive != self._alive:
            self._alive = alive
            self._pieces.clear()
        return self._pieces.setdefault(version, {})
