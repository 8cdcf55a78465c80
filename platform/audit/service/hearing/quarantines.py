"""Notices that a topic's quarantine on the live cluster was deleted, also where it has been created again since. See
`model.checks.quarantine`.
"""

from collections.abc import Mapping

from ....runtime.layout import QUARANTINE_SUFFIX
from ..store.database import Database

_SEEN = "quarantine:"
"""Begins the name of the fact which id the quarantine of a topic had."""
_GONE = "quarantine_gone:"
"""Begins the name of the fact when it was noticed that it is gone, the last time."""


def gone_ms(database: Database, topic: str) -> int | None:
    """Return when it was last noticed that the topic's quarantine was deleted; None: it never was."""
    at_ms = database.fact(_GONE + topic)
    return None if at_ms is None else int(at_ms)


class Quarantines:
    """What has been seen of them. The ledger's lock guards it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[str, str] | None = None

    def forget(self) -> None:
        """Forget what is in memory: the store was loaded again."""
        self._seen = None

    def is_known(self, topic: str) -> bool:
        """Return whether the topic had a quarantine when that was last seen."""
        if self._seen is None:
            self._seen = self._database.facts(_SEEN)
        return topic in self._seen

    def changes(self, ids: Mapping[str, str]) -> dict[str, str | None]:
        """Return topic → the id of its quarantine, None where it is gone, of those that are not as they were seen last.

        `ids`: every topic of the live cluster and its id (empty: it has none).
        """
        if self._seen is None:
            self._seen = self._database.facts(_SEEN)
        found = {name.removesuffix(QUARANTINE_SUFFIX): one for name, one in ids.items() if name.endswith(QUARANTINE_SUFFIX)}
        changed: dict[str, str | None] = {topic: one for topic, one in found.items() if self._seen.get(topic) != one}
        # Of a topic that is gone with its quarantine nobody asks.
        return changed | {topic: None for topic in self._seen.keys() - found.keys() if topic in ids}

    def note(self, changed: Mapping[str, str | None], now_ms: int) -> list[str]:
        """Note the changes, in the transaction that the caller has begun; return the topics whose quarantine was deleted."""
        assert self._seen is not None
        gone = [topic for topic in changed if topic in self._seen]
        for topic, topic_id in changed.items():
            if topic_id is None:
                self._database.delete("facts", name=_SEEN + topic)
                del self._seen[topic]
            else:
                self._database.put_fact(_SEEN + topic, topic_id)
                self._seen[topic] = topic_id
        for topic in gone:
            self._database.put_fact(_GONE + topic, now_ms)
        return gone
