"""Operators' wishes that a tier reports again what it holds of a partition. The tier takes them up, also after a restart.

Persistent and decimal: the offset from which on the tier has yet to report again, 0 at first.
"""

from typing import NamedTuple

from . import paths
from .errors import VersionConflict
from .session import Session
from .values import decimal, read_decimal


class RestateRequest(NamedTuple):
    """One wish as it was read. `version` changes with each write."""

    tier: str
    topic: str
    partition: int
    from_offset: int
    version: int


class RestateRequests:
    """Reads and writes the wishes of any tier."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def ask(self, tier: str, topic: str, partition: int) -> None:
        """Make the wish. One that is being carried out begins again."""
        self._session.tree.put(paths.restate_request(tier, topic, partition), decimal(0))

    def open(self, tier: str) -> list[RestateRequest]:
        """Return the tier's wishes, by topic and partition."""
        tree, folder = self._session.tree, paths.restate_requests(tier)
        by_folder = tree.children_many([f"{folder}/{topic}" for topic in tree.children(folder)])
        names = sorted((path.rpartition("/")[2], int(step)) for path, steps in by_folder.items() for step in steps)
        by_path = {paths.restate_request(tier, *name): name for name in names}
        return [
            RestateRequest(tier, *by_path[path], read_decimal(path, node.data), node.version)
            for path, node in tree.read_many(by_path).items()
        ]

    def move(self, request: RestateRequest, from_offset: int) -> RestateRequest | None:
        """Note that what lies before `from_offset` is reported. Return the wish as it is now; None if another one was made."""
        path = paths.restate_request(*request[:3])
        try:
            version = self._session.tree.write(path, decimal(from_offset), version=request.version)
        except VersionConflict:
            return None
        return request._replace(from_offset=from_offset, version=version)

    def end(self, request: RestateRequest) -> bool:
        """Remove the wish. Return False, and leave it, if another one was made meanwhile."""
        path = paths.restate_request(*request[:3])
        return path in self._session.tree.delete_unchanged({path: request.version})
