"""The producer ids of the agent's runs, kept in the state: a run continues under its ids after a restart."""

from collections.abc import Callable

from ...client.connection import control_plane
from ...client.connection.cluster import Cluster
from ...client.errors import ClientError
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ..state.store import Store

Ids = tuple[int, int]
"""Producer id and epoch."""


class ProducerIds:
    """Each owner's ids; another one is requested where the present one is spent."""

    def __init__(self, store: Store, cluster: Cluster, clock: Clock, on_new: Callable[[int, int, int], None]) -> None:
        """`on_new` is called with owner, producer id and epoch."""
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._on_new = on_new
        self._backoff = Backoff()
        self._attempts = 0
        self._retry_at_ms = 0
        self._known: dict[int, Ids | None] = {}
        self.last_error: ClientError | None = None

    def get(self, owner: int, *, but: Ids | None = None) -> Ids | None:
        """Return an id of the owner other than `but`; None: the cluster gives none now."""
        if owner not in self._known:
            ids = self._store.producer_ids(owner)
            self._known[owner] = ids[-1] if ids else None
        present = self._known[owner]
        if present is not None and present != but:
            return present
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._retry_at_ms:
            return None
        try:
            made = control_plane.ask_producer_id(self._cluster.controller())
        except ClientError as error:
            self.last_error = error
            self._retry_at_ms = now_ms + self._backoff.wait_ms(self._attempts)
            self._attempts += 1
            return None
        self._attempts, self.last_error = 0, None
        self._store.add_producer_id(owner, *made)
        self._known[owner] = made
        self._on_new(owner, *made)
        return made

    def forget(self, owner: int) -> None:
        self._known.pop(owner, None)
