"""How events leave the application, as the logger sees it: `direct` sends from the process, `journal` writes beside it.

Both take encoded events and count them alike: if `take` returned None, the event is stored, or reported as a named loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..audit.model.windows import WINDOW_MS
from ..wire.quarantine_record import QuarantineRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggerRun:
    """One run of one logger: who logs what. A process that was forked off continues as a run with another `instance`."""

    topic: str
    schema: str
    """Avro, as JSON text."""
    record_name: str
    """The schema's full name."""
    application: str
    instance: str
    server_name: str
    lateness_ms: int | None
    """None: a replay; none of its windows is over before its end."""
    only_between_ms: tuple[int, int] | None = None
    """The first instant of its events and the first instant behind them."""
    window_ms: int = WINDOW_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What became of one logger's events so far; exact after `close`.

    taken + quarantined + the sum of `dropped` = all calls of `log` and `quarantine` that reached the transport, and what the
    application said that it `sampled`. An event that was
    taken and is given up later moves from `taken` to `dropped`. taken = acknowledged + journaled + those still under way.
    """

    taken: int
    acknowledged: int
    """Stored by the live cluster. An agent's acknowledgements are not the application's to know: 0 with a journal."""
    journaled: int
    """Standing in the journal, for the agent to ship."""
    quarantined: int
    unpromised: int = 0
    """Of those that were taken: events of windows that the audit topic had not acknowledged as held when they came. If the
    process dies with them, the audit does not know of them.
    """
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Name of the loss (`LOSS_NAMES`) → events. `UNCERTAIN` is not a loss: sent, unanswered, reported to the audit as such."""

    @property
    def under_way(self) -> int:
        """Return how many events are taken, and neither acknowledged nor journaled."""
        return self.taken - self.acknowledged - self.journaled


UNCERTAIN = "uncertain"
"""In `Ledger.dropped`: events that were given up, and may be stored anyway."""


class Transport(Protocol):
    """Takes the encoded events of one logger. Any thread may call every method.

    After `close`, `take`, `quarantine` and `lost` raise `LoggerClosed`. What refuses the whole run (its schema, say) is raised by
    the first call that meets it, and by every call after.
    """

    @property
    def is_announced(self) -> bool:
        """Return whether the audit knows of this run, or will before one of its windows can close."""

    @property
    def take_may_block(self) -> bool:
        """Return whether `take` may wait even with `max_block_ms=0` (for a disk): then a coroutine calls it on another thread."""

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a body of this size (bytes) would be taken without waiting. A hint: other threads log, too."""

    def must_wait(self, timestamp_ms: int) -> bool:
        """Return whether an event of this time would be taken without the promise that the audit waits for it, and a moment later
        perhaps with it. A coroutine waits, as `take` does with a `max_block_ms`.
        """

    def take(self, body: bytes, timestamp_ms: int, key: bytes | None, max_block_ms: int) -> str | None:
        """Take an event's Avro body. Return None once it is taken, else the name of the loss that was counted. Hot."""

    def quarantine(self, record: QuarantineRecord, *, max_block_ms: int) -> None:
        """Take what could not become an event; counted in its window as `quarantined`, or as a loss."""

    def lost(self, window_start_ms: int, name: str, count: int = 1) -> None:
        """Count events that were refused to the caller, or that it chose not to log, by a name of `LOSS_NAMES`."""

    def flush(self, timeout_ms: int) -> None:
        """Return once everything taken before is acknowledged (direct), or on the disk (journal)."""

    def close(self, timeout_ms: int) -> None:
        """Flush and end; nothing is taken afterwards. A second call does nothing."""

    def is_inside(self) -> bool:
        """Return whether the calling thread was interrupted inside the transport, by a signal handler or a finalizer."""

    def abandon_after_fork(self) -> None:
        """Called in the child of a fork instead of `close`: release what the parent owns; write and send nothing."""

    def ledger(self) -> Ledger: ...
