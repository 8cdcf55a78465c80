"""How far each tier has *reported* to the audit, per partition. The first report of a successor begins there.

Persistent and decimal. A position never moves backwards: a process that was frozen, and replaced meanwhile, must not move it back
when it wakes up. Otherwise the next report would begin in the middle of one that the audit already has.
"""

from collections.abc import Iterable, Mapping

from . import paths
from .errors import VersionConflict
from .node import Node
from .session import Session
from .values import decimal, read_decimal

ATTEMPTS = 10
"""How often one write starts over because another writer moved the position."""


class AuditPositions:
    """Reads and moves the positions of any tier."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, tier: str, topic: str, partition: int) -> int | None:
        """Return the offset up to which the tier has reported (exclusive), or None when it never has."""
        path = paths.position(tier, topic, partition)
        node = self._session.tree.read(path)
        return None if node is None else read_decimal(path, node.data)

    def read_many(self, tier: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the same of each (topic, partition) that has a position. The calls are pipelined."""
        by_path = {paths.position(tier, *name): name for name in names}
        nodes = self._session.tree.read_many(by_path)
        return {by_path[path]: read_decimal(path, node.data) for path, node in nodes.items()}

    def partitions(self, tier: str, topic: str) -> list[int]:
        """Return the partitions of which the tier has reported, sorted."""
        return sorted(int(step) for step in self._session.tree.children(paths.positions(tier, topic)))

    def write(self, tier: str, topic: str, partition: int, offset: int) -> None:
        """Move the position forward to `offset`; a higher position stays. Raises ValueError below 0, ConnectionUnsure."""
        self._write(paths.position(tier, topic, partition), offset)

    def write_many(self, tier: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Move the position of each (topic, partition) as `write` does. The calls are pipelined, not a transaction."""
        wanted = {paths.position(tier, *name): offset for name, offset in offsets.items()}
        data = {path: decimal(offset) for path, offset in wanted.items()}
        tree = self._session.tree
        nodes = tree.read_many(wanted)
        made = tree.create_many({path: data[path] for path in wanted if path not in nodes})
        behind = {path: node.version for path, node in nodes.items() if read_decimal(path, node.data) < wanted[path]}
        moved = tree.write_each({path: (data[path], version) for path, version in behind.items()})
        left = [path for path, outcome in made.items() if not isinstance(outcome, Node)]
        left += [path for path, outcome in moved.items() if not isinstance(outcome, int)]
        for path in left:  # another writer moved it, or it is not known whether this one did
            self._write(path, wanted[path])

    def _write(self, path: str, offset: int) -> None:
        tree, data = self._session.tree, decimal(offset)
        for _ in range(ATTEMPTS):
            node = tree.read(path)
            if node is None:
                if tree.create(path, data):
                    return
                continue
            if read_decimal(path, node.data) >= offset:
                return
            try:
                tree.write(path, data, version=node.version)
            except VersionConflict:
                continue
            return
        raise VersionConflict("move", path)

    def forget(self, tier: str, topic: str, partition: int) -> bool:
        """Remove the position, so that the tier counts from the log's start. Return False when it had none."""
        return self._session.tree.delete(paths.position(tier, topic, partition))
