"""Reads the mirror's ledger for the offline tier, where the two clusters do not number their records alike.

Used by the offline reader's thread: `refresh` before each of its fetches.
"""

import sqlite3
from itertools import islice

from ....client.cluster_kind import counts_records
from ....client.connection.cluster import Cluster
from ....client.mirror_ledger import LedgerReader
from ....runtime.clock import Clock
from ....runtime.logs import get_logger
from ....wire.errors import WireError
from ..errors import LedgerUnreadable
from ..store.ledger import Ledger

log = get_logger(__name__)

REFRESH_MS = 500
"""The least time between two readings of the ledger."""
AT_ONCE = 500
"""Entries that are taken in together."""


class OriginReader:
    """Keeps the books' origins up to date."""

    def __init__(self, live: Cluster, offline: Cluster, mirror: str, ledger: Ledger, clock: Clock) -> None:
        """`mirror` is the name that the mirror was given (`headrace mirror run --name`)."""
        self._live, self._offline = live, offline
        self._mirror = mirror
        self._ledger = ledger
        self._clock = clock
        self._reader: LedgerReader | None = None
        self._is_known = False
        self._refresh_at_ms = 0

    def refresh(self) -> None:
        """Take in what the mirror has committed until now. Raises ClientError, `LedgerUnreadable`."""
        if not self._is_known:
            self._learn()
        now_ms = self._clock.monotonic_ms()
        if self._reader is None or now_ms < self._refresh_at_ms:
            return
        asked_ms = self._clock.now_ms()
        try:
            entries = self._reader.read()
            while len(some := list(islice(entries, AT_ONCE))) == AT_ONCE:
                self._ledger.logs.take_origins(some, None)
            self._ledger.logs.take_origins(some, asked_ms)
        except WireError as error:
            raise LedgerUnreadable(self._mirror, self._offline.bootstrap, str(error)) from error
        except sqlite3.Error as error:
            self._reader = LedgerReader(self._offline, self._mirror)  # from its beginning: what was read was not kept
            raise LedgerUnreadable(self._mirror, self._offline.bootstrap, f"no room to keep it ({error})") from error
        self._refresh_at_ms = now_ms + REFRESH_MS

    def _learn(self) -> None:
        is_alike = not (counts_records(self._offline) or counts_records(self._live))
        if not is_alike:
            self._reader = LedgerReader(self._offline, self._mirror)
            log.info("origins_read", mirror=self._mirror, offline=self._offline.bootstrap)
        self._ledger.logs.number_alike(is_alike=is_alike)
        self._is_known = True
