"""Finds topics by ids that clients send in the place of names. Pure.

A client that has a topic's id from Metadata 10 to 12 may send its text in the place of the name, in a Fetch that goes by names.
`@platformatic/kafka` 1.35 does so. Fetch 13, which goes by ids, would end this; it is not served yet.
"""

from ..partitions.catalog import Catalog

TEXT_LENGTH = 36
"""The length of an id as text: 32 digits and four hyphens."""


class TopicsById:
    """Holds the names of one catalog's topics by their ids' texts."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._names: dict[str, str] = {}

    def name_of(self, text: str, catalog: Catalog) -> str | None:
        """Return the name of the topic with this id, None where there is none. Goes once through each new catalog."""
        if len(text) != TEXT_LENGTH:
            return None
        if catalog is not self._catalog:
            self._catalog = catalog
            self._names = {str(entry.topic_id): entry.name for entry in catalog.topics.values()}
        return self._names.get(text)
