"""Decides whether fetched data may be appended: only when the mirrored schemas reach the source's end, read after the fetch.

A producer registers its schema before it sends data with the id, and the registry acknowledges what is in its topic. So the
schemas of whatever a fetch returned stand below the end that the topic has after the fetch. No batch is opened. What may not be
appended is dropped and fetched again: no position has moved.
"""

from typing import Protocol

from ...client.fetch.fetched import FetchedPartition
from ...errors import HeadraceError
from ...runtime.clock import Clock
from ...runtime.logs import get_logger

log = get_logger(__name__)

WAIT_MS = 2_000
"""How long one portion of data waits for its schemas. Then it is dropped and fetched again: a stop must not wait longer."""
IDLE_EVERY_MS = 500
"""How often the schemas are copied while there is no data."""


class CopiesSchemas(Protocol):
    """The copy of the schemas topic."""

    def live_end(self) -> int | None:
        """Return where the topic ends in the source now; None if the source has no such topic. Raises HeadraceError."""
        ...

    def copied_to(self) -> int:
        """Return up to which of the source's offsets the destination has confirmed that it holds it; -1 if that is not known."""
        ...

    def advance(self) -> None:
        """Copy what there is. Returns soon, whether anything was copied or not. Raises HeadraceError."""
        ...

    def trouble(self) -> str | None:
        """Return why it does not continue."""
        ...


class SchemasFirst:
    """The gate before every append. Belongs to the forwarder's thread; any thread may read `waits_for`."""

    def __init__(self, copy: CopiesSchemas, clock: Clock, *, wait_ms: int = WAIT_MS) -> None:
        self._copy = copy
        self._clock = clock
        self._wait_ms = wait_ms
        self._idle_at_ms = 0
        self.waits_for: str | None = None
        """Why data is held back now."""

    def admitted(self, fetched: list[FetchedPartition]) -> list[FetchedPartition]:
        """Return what was fetched before this call if it may be appended, else nothing. Copies schemas meanwhile."""
        if not any(one.batches for one in fetched):
            self._idle()
            return fetched
        try:
            end = self._copy.live_end()
            if end is None or self._reached(end):
                self._said(None)
                return fetched
            why = f"the schemas are copied to {self._copy.copied_to()}, and the source has them to {end}"
            self._said(f"{why}: {self._copy.trouble() or 'copying them'}")
        except HeadraceError as error:
            self._said(f"the schemas' end or copy cannot be reached: {error}")
        return []

    def _reached(self, end: int) -> bool:
        deadline_ms = self._clock.monotonic_ms() + self._wait_ms
        while self._copy.copied_to() < end:
            if self._clock.monotonic_ms() >= deadline_ms:
                return False
            self._copy.advance()
        return True

    def _idle(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._idle_at_ms:
            return
        self._idle_at_ms = now_ms + IDLE_EVERY_MS
        try:
            self._copy.advance()
        except HeadraceError as error:
            log.warning("schemas_not_copied", reason=str(error))

    def _said(self, waits_for: str | None) -> None:
        if (waits_for is None) != (self.waits_for is None):
            if waits_for is None:
                log.info("schemas_arrived")
            else:
                log.warning("data_waits_for_schemas", reason=waits_for)
        self.waits_for = waits_for
