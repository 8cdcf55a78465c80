"""Topic ids that come where a name belongs. Pure.

A client that has learned a topic's id from Metadata 10 to 12 may send its text in the place of the name with a Fetch that goes by
names: `@platformatic/kafka` 1.35 does. Fetch 13, which goes by ids, would end this; it is not served yet.
"""

from .catalog import Catalog

TEXT_LENGTH = 36
"""Of an id as text: 32 digits and four hyphens."""


class TopicsById:
    """Finds names by ids; holds the texts of one catalog's."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._names: dict[str, str] = {}

    def name_of(self, text: str, catalog: Catalog) -> str | None:
        """Return the name of the topic with this id, None where `text` is no topic's. Goes once through a catalog that is new."""
        if len(text) != TEXT_LENGTH:
            return None
        if catalog is not self._catalog:
            self._catalog = catalog
            self._names = {str(entry.topic_id): entry.name for entry in catalog.topics.values()}
        return self._names.get(text)
