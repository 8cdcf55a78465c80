"""Writes checkpoints of the store, rebuilds a lost store from the newest that is whole, and deletes of the audit topic what the
last two both hold. Most of them are increments: what changed since the last two (`chains.py`).

Before anything is deleted, the checkpoint that holds it is read back from the topic and its checksum compared. A lost store is
one that has heard nothing yet, or that is before the audit topic's beginning.
"""

import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....errors import HeadraceError
from ....runtime.clock import Clock
from ....runtime.lifecycle import StopSignal
from ....runtime.logs import get_logger
from ...model.errors import AuditError
from ..hearing.other_audits import Position, least
from ..store.changes import made_checkpoints
from ..store.database import Database
from ..store.ledger import Ledger
from ..store.tables import ADDED_TO, LAYOUT
from .chains import kept, plans, usable
from .form import About, BadCheckpoint, Complete, Finder, lines_in, messages, taken_apart
from .rows import changed_lines_of, fill, lines_of
from .topic import CheckpointLog

log = get_logger(__name__)

REST = 1
"""Times as long as a part took is rested behind it, so that a large store does not take the processor."""
RESTS_BETWEEN = 20
"""Times as long as a checkpoint took is waited at least before the next one."""
RETRY_MS = 60_000
LOOK_MS = 1_000
NOTE_EVERY_MS = 60_000
"""How often other audits are told how far this one has read."""
AT_STOP_MS = 5_000
"""A stop waits at most so long for a last checkpoint."""


class TookTooLong(AuditError):
    """A checkpoint was given up because the service stops."""


class Checkpointer:
    """The thread that writes checkpoints. `rebuild` is called by the collector before it continues."""

    def __init__(self, ledger: Ledger, topic: CheckpointLog, clock: Clock) -> None:
        self._ledger = ledger
        self._topic = topic
        self._clock = clock
        self._stop = StopSignal()
        self._lock = threading.Lock()
        self._complete: list[Complete] | None = None
        """The whole checkpoints of the topic, in order; None until the topic has been read."""
        self._may_write = False
        """False while the store may be a lost one."""
        self._written_mark: object = None
        self._next_ms: int | None = None
        self._noted_at_ms: int | None = None
        self.took_ms: int | None = None
        """How long the last checkpoint took to write."""
        self.failure: str | None = None
        """Why the last checkpoint could not be written; None when it could."""
        self._thread = threading.Thread(target=self._run, name="audit-checkpoints", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread, then write a last checkpoint if that is quick."""
        self._stop.set()
        self._thread.join(timeout=AT_STOP_MS / 1000)
        if self._thread.is_alive() or not self._may_write or (self.took_ms or 0) > AT_STOP_MS:
            return
        try:
            self.write(deadline_ms=self._clock.monotonic_ms() + AT_STOP_MS)
        except Exception as error:
            log.warning("checkpoint_not_written", reason=str(error))

    # -- rebuilding ----------------------------------------------------------------------------------------------------

    def rebuild(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        """Replace the store by the newest whole checkpoint from which the audit topic can be read on; return whether there was
        one. The audit topic reaches from `starts` to `ends`. Raises ClientError, StoreError.
        """
        with self._lock:
            self._may_write = True
            found = plans(self._seen(None))
            for one in self._seen(None):
                if one.about.checkpoint not in found:
                    log.error(
                        "checkpoint_not_usable", checkpoint=one.about.checkpoint,
                        reason=f"it holds what changed since {' and '.join(one.about.after)}, and these are gone or not whole",
                    )  # fmt: skip
            for base, *increments in reversed(found.values()):
                one = increments[-1] if increments else base
                if not all(start <= one.about.audit.get(partition, 0) <= ends[partition] for partition, start in starts.items()):
                    log.warning(
                        "checkpoint_not_usable",
                        checkpoint=one.about.checkpoint,
                        reason="the audit topic does not continue from it",
                    )
                    continue
                try:
                    self._replace_store(base, increments)
                except (BadCheckpoint, ValueError, KeyError, TypeError) as error:
                    log.error("checkpoint_not_usable", checkpoint=one.about.checkpoint, reason=str(error))
                    continue
                log.warning(
                    "store_rebuilt",
                    checkpoint=one.about.checkpoint,
                    written_at_ms=one.about.at_ms,
                    increments=len(increments),
                    audit_offsets=dict(one.about.audit),
                )
                return True
        return False

    def _replace_store(self, base: Complete, increments: Sequence[Complete]) -> None:
        def refill(database: Database) -> None:
            fill(database, self._lines(base), [self._lines(one) for one in increments], (base, *increments)[-1].about.checkpoint)

        self._ledger.books.replace_store(refill)

    def nothing_lost(self) -> None:
        """Know that the store needs no rebuilding: from now on checkpoints are written."""
        self._may_write = True

    def topics_lost(self) -> None:
        """Know that the audit topic was lost, and with it perhaps the checkpoints: read what is left of these, and write one.

        Does not wait for one that is being written.
        """
        self._complete = self._written_mark = None
        self._next_ms = self._clock.monotonic_ms()

    def _seen(self, deadline_ms: int | None) -> list[Complete]:
        """Return the whole checkpoints that this service can use, the newest last."""
        if self._complete is None:
            finder = self._found(0, deadline_ms)
            for checkpoint, reason in finder.broken.items():
                log.warning("checkpoint_skipped", checkpoint=checkpoint, reason=reason)
            self._complete = [one for one in finder.complete if self._is_ours(one)]
        return self._complete

    def _is_ours(self, one: Complete) -> bool:
        reason = None
        if str(one.about.layout) not in (str(LAYOUT), *ADDED_TO):
            reason = f"layout {one.about.layout}, this version writes {LAYOUT}"
        elif one.about.window_ms != self._ledger.books.settings.window_ms:
            reason = f"windows of {one.about.window_ms} ms, the settings say {self._ledger.books.settings.window_ms}"
        if reason is not None:
            log.warning("checkpoint_not_usable", checkpoint=one.about.checkpoint, reason=reason)
        return reason is None

    def _found(self, from_offset: int, deadline_ms: int | None) -> Finder:
        finder = Finder()
        for offset, value in self._topic.read(from_offset):
            self._see_time(deadline_ms)
            finder.see(offset, value)
        finder.finish()
        return finder

    def _lines(self, one: Complete) -> Iterator[bytes]:
        return lines_in(self._payloads(one))

    def _payloads(self, one: Complete) -> Iterator[bytes]:
        for offset, value in self._topic.read(one.from_offset):
            if offset > one.last_offset:
                return
            message = taken_apart(value)
            if message.checkpoint == one.about.checkpoint and message.kind == "rows":
                yield message.payload

    # -- writing -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._next_ms = self._clock.monotonic_ms() + self._ledger.books.settings.checkpoint_every_ms
        while not self._stop.wait(LOOK_MS):
            if self._may_write:
                self._note_position_if_due()
            if not self._may_write or self._clock.monotonic_ms() < self._next_ms:
                continue
            wait_ms = max(self._ledger.books.settings.checkpoint_every_ms, RESTS_BETWEEN * (self.took_ms or 0))
            try:
                self.write()
            except Exception as error:
                if self._stop.is_set():
                    return
                self.failure = str(error)
                log.warning("checkpoint_not_written", reason=str(error), exc_info=not isinstance(error, AuditError))
                wait_ms = min(wait_ms, RETRY_MS)
            self._next_ms = self._clock.monotonic_ms() + wait_ms

    def _note_position_if_due(self) -> None:
        if self._noted_at_ms is not None and self._clock.monotonic_ms() - self._noted_at_ms < NOTE_EVERY_MS:
            return
        try:
            self._note_position()
        except Exception as error:
            if not self._stop.is_set():
                log.warning("position_not_noted", reason=str(error), exc_info=not isinstance(error, HeadraceError))
            self._noted_at_ms = self._clock.monotonic_ms()  # tried again in a minute

    def write(self, deadline_ms: int | None = None) -> bool:
        """Write a checkpoint if something changed since the last one, see that it is whole, and shorten both topics; return
        whether one was written. Raises ClientError, StoreError, TookTooLong.
        """
        with self._lock:
            mark = self._ledger.mark()
            if mark == self._written_mark or not self._ledger.collector_positions():
                return False
            known = self._seen(deadline_ms)
            began_ms = self._clock.monotonic_ms()
            period = self._ledger.books.end_period()
            with self._ledger.books.snapshot() as read:
                made = {one.checkpoint: one.period for one in made_checkpoints(read)}
                after = usable(known, list(made))
                facts: dict[str, str] = dict(read("SELECT name, value FROM facts"))
                about = About(
                    checkpoint=secrets.token_hex(8),
                    layout=LAYOUT,
                    window_ms=self._ledger.books.settings.window_ms,
                    at_ms=self._clock.now_ms(),
                    audit={
                        int(name.partition(":")[2]): int(value) for name, value in facts.items() if name.startswith("collector:")
                    },
                    after=tuple(after),
                )
                lines = changed_lines_of(read, min(made[name] for name in after)) if after else lines_of(read)
                self._topic.append(self._unhurried(messages(about, lines), deadline_ms))
            found = self._found(known[-1].last_offset + 1 if known else 0, deadline_ms)
            mine = [one for one in found.complete if one.about.checkpoint == about.checkpoint]
            if not mine:
                # What is known of the topic may be of one that is gone: the next attempt reads it from its start.
                self._complete = None
                reason = found.broken.get(about.checkpoint, "it is not on the topic")
                raise AuditError(f"the checkpoint {about.checkpoint} was written and cannot be read back: {reason}")
            self._ledger.books.made_checkpoint(about.checkpoint, period)
            known += mine
            self._written_mark = mark
            self.took_ms = self._clock.monotonic_ms() - began_ms
            self.failure = None
            log.info(
                "checkpoint_written", checkpoint=about.checkpoint, kind="increment" if after else "base",
                payload_bytes=mine[0].payload_bytes, took_ms=self.took_ms, audit_offsets=dict(about.audit),
            )  # fmt: skip
            must_stay = kept(known)
            if must_stay is not None:
                self._note_position()
                self._topic.trim(least(must_stay[0], self._topic.positions(), self._clock.now_ms()), must_stay[1])
                known[:] = [one for one in known if one.from_offset >= must_stay[1]]
            return True

    def _note_position(self) -> None:
        """Tell other audits of this cluster how far this one has read."""
        positions = self._ledger.collector_positions()
        if positions:
            self._topic.note_position(Position(self._ledger.books.store_id(), self._clock.now_ms(), positions))
            self._noted_at_ms = self._clock.monotonic_ms()

    def _unhurried(self, values: Iterable[bytes], deadline_ms: int | None) -> Iterator[bytes]:
        """Yield the values with a rest behind each; with a deadline without rest, and not beyond it."""
        began_ms = self._clock.monotonic_ms()
        for value in values:
            yield value
            self._see_time(deadline_ms)
            if deadline_ms is None and self._stop.wait(REST * (self._clock.monotonic_ms() - began_ms)):
                raise TookTooLong("the service stops")
            began_ms = self._clock.monotonic_ms()

    def _see_time(self, deadline_ms: int | None) -> None:
        if deadline_ms is not None and self._clock.monotonic_ms() > deadline_ms:
            raise TookTooLong("the service stops, and a checkpoint takes longer than it may wait")
