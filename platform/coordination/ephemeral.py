"""One ephemeral node that exists as long as its process: it is created, replaced when it is stale, renewed after a lost session.

The trap: an ephemeral node outlives a killed client by the session time, so a process that restarts quickly finds its own earlier
node. The caller says, from the node's data, whether the node is its own.
"""

import logging
import threading
from collections.abc import Callable

from .errors import ConnectionUnsure, CoordinationError, VersionConflict
from .operations import Create, Delete
from .session import Session

log = logging.getLogger(__name__)

ATTEMPTS = 5
"""How often one registration starts over because the node changed meanwhile."""


class EphemeralNode:
    """Keeps one path's data registered in the present session, and in each later one."""

    def __init__(
        self,
        session: Session,
        path: str,
        data: bytes,
        *,
        is_mine: Callable[[bytes], bool],
        taken: Callable[[bytes], CoordinationError],
        on_refused: Callable[[CoordinationError], None] | None = None,
    ) -> None:
        """`is_mine` says whether found data is this process's own, from before a restart; `taken` makes the error if not.

        When a renewal finds another process's node, the registration ends and the session's thread calls `on_refused`.
        """
        self._session, self.path, self._data = session, path, data
        self._is_mine, self._taken, self._on_refused = is_mine, taken, on_refused
        self._lock = threading.Lock()

    def register(self) -> None:
        """Create the node, now and in later sessions. Raises the error of `taken`, and ConnectionUnsure."""
        generation = self._session.generation
        with self._lock:
            self._put()
        self._session.keep(self, made_in=generation)

    def renew(self) -> None:
        """Create the node again. The session calls this after a loss."""
        with self._lock:
            try:
                self._put()
            except ConnectionUnsure:
                raise  # the session calls again
            except CoordinationError as error:
                log.error("registration_refused", extra={"fields": {"path": self.path, "error": str(error)}})
                self._session.forget(self)
                if self._on_refused is not None:
                    self._on_refused(error)
                return
        log.info("registration_renewed", extra={"fields": {"path": self.path}})

    def withdraw(self) -> None:
        """Remove the node and stop renewing it. A node of another session stays."""
        self._session.forget(self)
        with self._lock:
            node = self._session.tree.read(self.path)
            if node is not None and node.owner_session == self._session.tree.session_id:
                self._session.tree.delete(self.path, version=node.version)

    def _put(self) -> None:
        tree = self._session.tree
        for _ in range(ATTEMPTS):
            if tree.create(self.path, self._data, ephemeral=True):
                return
            node = tree.read(self.path)
            if node is None:
                continue
            if node.owner_session == tree.session_id:  # our own create, whose response was lost
                if node.data != self._data:
                    try:
                        tree.write(self.path, self._data, version=node.version)
                    except VersionConflict:
                        continue
                return
            if not self._is_mine(node.data):
                raise self._taken(node.data)
            # One transaction, bound to the version that was read: no other process can register in between.
            replaced = tree.transact(
                [Delete(path=self.path, version=node.version), Create(path=self.path, data=self._data, ephemeral=True)]
            )
            if replaced is None:
                log.info("registration_replaced", extra={"fields": {"path": self.path, "session": node.owner_session}})
                return
        raise ConnectionUnsure("register", self.path, f"the node changed {ATTEMPTS} times meanwhile")
