"""Finds topics by ids that clients send in the place of names: Fetch from version 13 on. Pure.

A client that has a topic's id from Metadata 10 to 12 may also send its text in the place of the name, in a Fetch that goes by
names. `@platformatic/kafka` 1.35 does so.
"""

from uuid import UUID

from ..partitions.catalog import Catalog

TEXT_LENGTH = 36
"""The length of an id as text: 32 digits and four hyphens."""


class TopicsById:
    """Holds the names of one catalog's topics by their ids."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._known: dict[bytes, tuple[str, UUID]] = {}

    def name_of(self, topic: str | bytes, catalog: Catalog) -> str | None:
        """Return the name of the topic with this id, as bytes or as text; None where there is none. Hot: once a fetch by id.

        A topic that was found before is looked up in the new catalog. Only an id that is not known makes it go through all topics
        of a catalog, once.
        """
        if isinstance(topic, str):
            if len(topic) != TEXT_LENGTH:
                return None
            try:
                topic = UUID(topic).bytes
            except ValueError:
                return None
        known = self._known.get(topic)
        if known is not None:
            name, topic_id = known
            entry = catalog.topics.get(name)
            if entry is not None and entry.topic_id == topic_id:
                return name
        if catalog is self._catalog:
            return None
        self._catalog = catalog
        self._known = {entry.topic_id.bytes: (entry.name, entry.topic_id) for entry in catalog.topics.values()}
        known = self._known.get(topic)
        return None if known is None else known[0]
