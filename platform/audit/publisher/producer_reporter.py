"""What one run of a producer tells the audit: announced before its first event, absolute counts per window, a seal at a
clean end.

Counts are absolute per (run, topic, window), so a report that is sent twice does no harm and one that was lost is
healed by the next that mentions the window. Decides nothing about event time: the caller says what it has moved past.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ...runtime.clock import Clock, SystemClock
from ..model.errors import AuditError
from ..model.messages import LOSS_NAMES, MAX_WINDOWS, ProducerReport, ProducerWindow
from .sending import ReportNotSent, ReportSender, send_and_flush

DEFAULT_TIMEOUT_MS = 30_000


@dataclass(slots=True)
class _Tally:
    counts: dict[int, int] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)


class ProducerReporter:
    """Keeps and reports the counts of one run of one producer. Every method may be called from any thread.

    `acknowledged` and `lost` only count (they never wait for a send); `announce`, `beat` and `seal_and_close` send and
    wait.
    """

    def __init__(
        self,
        *,
        instance: str,
        sender: ReportSender,
        clock: Clock | None = None,
        most_windows: int = 5_000,
    ) -> None:
        """`instance` names the producer (host/app/uuid).

        More than `most_windows` windows begin a new epoch, to bound memory.
        """
        self.instance = instance
        self._sender = sender
        self._clock = clock or SystemClock()
        self._most_windows = most_windows
        # Lock order: _sending, then _counting. Counting is never held while sending: the sender's own thread calls
        # `acknowledged`.
        self._sending = threading.Lock()
        self._counting = threading.Lock()
        self._epoch = self._clock.now_ms()
        self._sequence = 0
        self._tallies: dict[tuple[str, int], _Tally] = {}
        self._dirty: set[tuple[str, int]] = set()
        self._topics: set[str] = set()
        self._producer_ids: set[int] = set()
        self._moved_past_ms: int | None = None
        self._must_restate = False
        self._retired: list[ProducerReport] = []
        self._is_closed = False

    @property
    def epoch(self) -> int:
        return self._epoch

    def announce(
        self,
        topics: Iterable[str],
        producer_ids: Iterable[int],
        *,
        moved_past_ms: int | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Return once the audit topic holds that this run exists. Call it before the first event of each topic.

        `producer_ids` are those on the batches it will send (live counts are matched by them). Windows that end at or
        before `moved_past_ms` will get no events from this run, so they stay decided; None when any window may (a
        replay). May be called again. Raises ReportNotSent.
        """
        with self._counting:
            self._topics.update(topics)
            self._producer_ids.update(producer_ids)
        self.beat(moved_past_ms=moved_past_ms, timeout_ms=timeout_ms)

    def acknowledged(self, topic: str, partition: int, window_start_ms: int, count: int) -> None:
        """Add `count` records that the live cluster acknowledged."""
        with self._counting:
            tally = self._tally(topic, window_start_ms)
            tally.counts[partition] = tally.counts.get(partition, 0) + count

    def lost(self, topic: str, window_start_ms: int, name: str, count: int = 1) -> None:
        """Add `count` records that were taken in and not acknowledged, under a name of `LOSS_NAMES`."""
        if name not in LOSS_NAMES:
            raise AuditError(f"no loss is called {name!r}: the books know {', '.join(LOSS_NAMES)}")
        with self._counting:
            tally = self._tally(topic, window_start_ms)
            tally.losses[name] = tally.losses.get(name, 0) + count

    def _tally(self, topic: str, window_start_ms: int) -> _Tally:
        key = (topic, window_start_ms)
        self._dirty.add(key)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally()
        return tally

    def delivery_failed(self) -> None:
        """Note that a message to the audit topic was given up: the next report says again all that this run remembers."""
        with self._counting:
            self._must_restate = True

    def beat(self, *, moved_past_ms: int | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Report every window that changed since the last report, in at least one message: the sign of life.

        `moved_past_ms` seals every window that ends at or before it; the caller has no record of theirs in flight. It
        never goes back; a late event in such a window is counted and re-opens it. Raises ReportNotSent.
        """
        with self._sending:
            self._report(closing=False, moved_past_ms=moved_past_ms, timeout_ms=timeout_ms)
            if len(self._tallies) > self._most_windows:
                self._begin_epoch()

    def seal_and_close(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Report what is left and seal every window; the caller has nothing in flight.

        Raises ReportNotSent; may then be called again.
        """
        with self._sending:
            if not self._is_closed:
                self._report(closing=True, moved_past_ms=None, timeout_ms=timeout_ms)
                self._is_closed = True

    def _report(self, *, closing: bool, moved_past_ms: int | None, timeout_ms: int) -> None:
        past = max((at for at in (self._moved_past_ms, moved_past_ms) if at is not None), default=None)
        with self._counting:
            if self._is_closed:
                raise AuditError(f"producer {self.instance} is sealed and closed: it cannot report again")
            restating = self._must_restate
            messages = self._messages(set(self._tallies) if restating else self._dirty, restates=restating)
            self._dirty = set()
            self._must_restate = False
        # Only the last message seals: before it the counts of the earlier ones have arrived.
        messages[-1] = replace(messages[-1], state="closed" if closing else "open", moved_past_ms=past)
        self._sequence += len(messages)
        try:
            send_and_flush(self._sender, self._clock, [*messages, *self._retired], timeout_ms)
        except ReportNotSent:
            self.delivery_failed()
            raise
        self._retired = []
        self._moved_past_ms = past

    def _messages(self, taken: set[tuple[str, int]], *, restates: bool = False) -> list[ProducerReport]:
        """Return the messages that hold the windows `taken`, in parts, from the next sequence on.

        The caller holds `_counting`.
        """
        windows = [
            ProducerWindow(topic=topic, window_start_ms=start, counts=dict(tally.counts), losses=dict(tally.losses))
            for topic, start in sorted(taken)
            for tally in (self._tallies[topic, start],)
        ]
        return [
            ProducerReport(
                instance=self.instance,
                epoch=self._epoch,
                sequence=self._sequence + number,
                at_ms=self._clock.now_ms(),
                state="open",
                producer_ids=tuple(sorted(self._producer_ids)),
                topics=tuple(sorted(self._topics)),
                moved_past_ms=self._moved_past_ms,
                restates_from=self._sequence if restates else None,
                windows=tuple(windows[at : at + MAX_WINDOWS]),
            )
            for number, at in enumerate(range(0, max(1, len(windows)), MAX_WINDOWS))
        ]

    def _begin_epoch(self) -> None:
        """Begin new books under a higher epoch, so that memory stays bounded: the audit adds the epochs of one instance up.

        The old epoch's last words go out behind the new one's first: between the two its windows are unsealed, never
        wrongly complete.
        """
        with self._counting:
            closing = self._messages(self._dirty)
            closing[-1] = replace(closing[-1], state="closed")
            self._retired = closing
            self._tallies, self._dirty = {}, set()
            self._epoch, self._sequence = max(self._epoch + 1, self._clock.now_ms()), 0
