"""One ephemeral node that is to be there as long as its process: made, replaced where that is right, renewed after session loss.

The trap it knows: an ephemeral node outlives a killed client by the session time, so a process that restarts quickly meets the
node of its own former life. Whether a node found there is 'mine from before' is the caller's to say, from its data.
"""

import logging
import threading
from collections.abc import Callable

from .errors import ConnectionUnsure, CoordinationError, VersionConflict
from .operations import Create, Delete
from .session import Session

log = logging.getLogger(__name__)

ATTEMPTS = 5
"""How often one registration starts over when the node changes under its hands."""


class EphemeralNode:
    """Holds one path's data in whatever session is the present one."""

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
        """`is_mine` says whether the data found belongs to a former life of this process, `taken` makes the error when not.

        `on_refused` is called, on the session's thread, when a renewal finds a stranger there; the node is then given up.
        """
        self._session, self.path, self._data = session, path, data
        self._is_mine, self._taken, self._on_refused = is_mine, taken, on_refused
        self._lock = threading.Lock()

    def register(self) -> None:
        """Have the node there, now and in later sessions. Raises what `taken` makes, ConnectionUnsure."""
        generation = self._session.generation
        with self._lock:
            self._put()
        self._session.keep(self, made_in=generation)

    def renew(self) -> None:
        """Have the node there again; called by the session after a loss."""
        with self._lock:
            try:
                self._put()
            except ConnectionUnsure:
                raise  # the session asks again
            except CoordinationError as error:
                log.error("registration_refused", extra={"fields": {"path": self.path, "error": str(error)}})
                self._session.forget(self)
                if self._on_refused is not None:
                    self._on_refused(error)
                return
        log.info("registration_renewed", extra={"fields": {"path": self.path}})

    def withdraw(self) -> None:
        """Have it there no more. A node that is not this session's stays."""
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
            if node.owner_session == tree.session_id:  # our own create, whose answer was lost on the way
                if node.data != self._data:
                    try:
                        tree.write(self.path, self._data, version=node.version)
                    except VersionConflict:
                        continue
                return
            if not self._is_mine(node.data):
                raise self._taken(node.data)
            # In one act, and only while it is still the node that was read: a stranger cannot slip in between.
            replaced = tree.transact(
                [Delete(path=self.path, version=node.version), Create(path=self.path, data=self._data, ephemeral=True)]
            )
            if replaced is None:
                log.info("registration_replaced", extra={"fields": {"path": self.path, "session": node.owner_session}})
                return
        raise ConnectionUnsure("register", self.path, f"the node changed {ATTEMPTS} times meanwhile")
