"""Of which topic each mirrored partition is a copy: the id that the source's topic had when it was last known to be the same.

Persistent text, in the destination's ZooKeeper, by the partition's name there. A topic that was deleted and created again under
its name has another id, and a mirror that was down meanwhile learns it from here.
"""

from collections.abc import Iterable, Mapping

from . import paths
from .node import Node
from .session import Session


class MirrorSources:
    """Reads and writes the ids. Topics and partitions are the destination's."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read_many(self, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """Return the id of each (topic, partition) that has one. The calls are pipelined."""
        by_path = {paths.mirror_source(*name): name for name in names}
        nodes = self._session.tree.read_many(by_path)
        return {by_path[path]: node.data.decode("ascii", "replace") for path, node in nodes.items()}

    def write_many(self, ids: Mapping[tuple[str, int], str]) -> None:
        """Note the id of each (topic, partition). The calls are pipelined, not a transaction. Most are new."""
        values = {paths.mirror_source(*name): topic_id.encode("ascii") for name, topic_id in ids.items()}
        outcomes = self._session.tree.create_many(values)
        # Those that exist, and those of which it is not known: to write them again changes nothing.
        self._session.tree.put_many({path: values[path] for path, outcome in outcomes.items() if not isinstance(outcome, Node)})
