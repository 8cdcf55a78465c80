"""Of which topic each mirrored partition is a copy: the id that the source's topic had when it was last known to be the same.

Persistent text, in the destination's ZooKeeper, by the partition's name there. A topic that was deleted and made anew under its
name has another id, and a mirror that was down meanwhile learns it from here.
"""

from . import paths
from .session import Session


class MirrorSources:
    """Reads and writes the ids. Topics and partitions are the destination's."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, topic: str, partition: int) -> str:
        """Return the id; empty if none was noted."""
        node = self._session.tree.read(paths.mirror_source(topic, partition))
        return "" if node is None else node.data.decode("ascii", "replace")

    def write(self, topic: str, partition: int, topic_id: str) -> None:
        self._session.tree.put(paths.mirror_source(topic, partition), topic_id.encode("ascii"))
