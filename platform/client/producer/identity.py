"""The producer's ids. The first is requested when it is needed, another when a partition can no longer be numbered under the
current one.
"""

import threading

from ...runtime.backoff import Backoff
from ...runtime.logs import get_library_logger
from ..connection import control_plane
from ..connection.cluster import Cluster
from ..errors import ClientError

log = get_library_logger(__name__)


class ProducerIdentity:
    """The ids of one producer. Every method may be called from any thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._backoff = Backoff()
        self._attempts = 0
        self._asking = threading.Lock()
        self.ids: tuple[tuple[int, int], ...] = ()
        """Every (producer id, epoch) so far; the last is the current one."""
        self.retry_at_ms = 0
        """No request before then (monotonic ms)."""
        self.last_error: ClientError | None = None

    @property
    def present(self) -> tuple[int, int] | None:
        return self.ids[-1] if self.ids else None

    def ensure(self, now_ms: int) -> bool:
        """Return whether there is an id; request the first one if needed. Raises as `renew`."""
        with self._asking:
            return self.present is not None or self._renew(now_ms)

    def renew(self, spent_id: int, now_ms: int) -> bool:
        """Return whether there is an id other than `spent_id`; request one, unless the last request has just failed.

        Raises an error that is not retriable: a broker that gives no ids.
        """
        with self._asking:
            present = self.present
            return (present is not None and present[0] != spent_id) or self._renew(now_ms)

    def _renew(self, now_ms: int) -> bool:
        if now_ms < self.retry_at_ms:
            return False
        try:
            made = control_plane.ask_producer_id(self._cluster.controller())
        except ClientError as error:
            if not error.retriable:
                raise
            self.last_error = error
            self.retry_at_ms = now_ms + self._backoff.wait_ms(self._attempts)
            self._attempts += 1
            return False
        self._attempts = 0
        self.last_error = None
        self.ids = (*self.ids, made)
        log.info("producer_id_taken", producer_id=made[0], producer_epoch=made[1], cluster=self._cluster.bootstrap)
        return True
