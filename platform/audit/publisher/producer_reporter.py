"""What one run of a producer reports to the audit: announced before its first event, every batch with its end, a seal at a clean
end.

A report holds the batches that no report before it held, and the totals of the losses that have changed. One report is under way
at a time. If it fails, it is said again word for word, with its sequence numbers, until the audit topic has acknowledged it; what
ends meanwhile waits for the next. Decides nothing about event time: the caller says what it has moved past.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from ...client.producer.delivery import Delivery, DeliveryEnd
from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_library_logger
from ..model.errors import AuditError
from ..model.messages import LOSS_NAMES, REFUSED, SEND_FAILED, Hold, ProducerReport, ProducerWindow
from .sending import ReportNotSent, ReportSender, send_and_flush
from .unreported import Unreported

log = get_library_logger(__name__)

DEFAULT_TIMEOUT_MS = 30_000


class ProducerReporter:
    """Keeps and reports what became of one run's records. Every method may be called from any thread.

    `ended` and `lost` only take notes (they never wait for a send); `announce`, `beat` and `seal_and_close` send and wait.
    """

    def __init__(
        self,
        *,
        instance: str,
        sender: ReportSender,
        only_between_ms: tuple[int, int] | None = None,
        clock: Clock | None = None,
        most_stretches: int = 100_000,
        most_loss_windows: int = 20_000,
    ) -> None:
        """`instance` names the producer (host/app/uuid). `only_between_ms`: the run logs no event before the first or at or after
        the second instant.

        Two bounds of memory, for an audit topic that is away for long and for events of very many windows. With more than
        `most_stretches` batches to be reported, neighbours are reported as one without their CRC: a batch altered on the live
        cluster can then not be told from one that was not. With losses in more than `most_loss_windows` windows, a new epoch
        begins.
        """
        self.instance = instance
        self._sender = sender
        self._only_between_ms = only_between_ms
        self._clock = clock or SystemClock()
        self._most_loss_windows = most_loss_windows
        # Lock order: _sending, then _noting. Notes are never held while sending: the sender's own thread calls `ended`.
        self._sending = threading.Lock()
        self._noting = threading.RLock()
        self.is_owned: Callable[[], bool] = self._noting._is_owned  # type: ignore[attr-defined]
        """Whether the calling thread is inside `ended`, `lost` or a report, interrupted by a signal handler or a finalizer: then
        it must not note anything now.
        """
        self._unreported = Unreported(most_stretches)
        self._epoch = self._clock.now_ms()
        self._sequence = 0
        self._topics: set[str] = set()
        self._producer_ids: set[int] = set()
        self._moved_past_ms: int | None = None
        self._holds: tuple[Hold, ...] | None = None
        self._under_way: list[ProducerReport] = []
        """The report that the audit topic has not acknowledged, as its messages."""
        self._has_failed = False
        """A message to the audit topic was given up, as far as its producer has said."""
        self._coalesced_count = 0
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
        holds: tuple[Hold, ...] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Return once the audit topic holds that this run exists. Call it before the first event of each topic.

        `producer_ids` are those on the batches it will send. Windows that end at or before `moved_past_ms` will get no events
        from this run, so they stay decided; None when any window may (a replay). May be called again. Raises ReportNotSent.
        """
        with self._noting:
            self._topics.update(topics)
            self._producer_ids.update(producer_ids)
        self.beat(moved_past_ms=moved_past_ms, holds=holds, timeout_ms=timeout_ms)

    def ended(self, window_start_ms: int, delivery: Delivery) -> None:
        """Note what became of a batch, all of whose records are in one window."""
        key = (delivery.topic, window_start_ms)
        with self._noting:
            if delivery.numbers:
                is_acknowledged = delivery.end is DeliveryEnd.ACKNOWLEDGED
                self._unreported.add_batch(
                    key, delivery.partition, delivery.numbers, delivery.record_count, is_acknowledged=is_acknowledged
                )
            elif delivery.end is DeliveryEnd.REFUSED:
                self._unreported.add_loss(key, REFUSED, delivery.record_count)
            else:
                self._unreported.add_loss(key, SEND_FAILED, delivery.record_count)

    def lost(self, topic: str, window_start_ms: int, name: str, count: int = 1) -> None:
        """Add `count` records that were taken in and never sent, under a name of `LOSS_NAMES`."""
        if name not in LOSS_NAMES:
            raise AuditError(f"no loss is called {name!r}: the audit knows {', '.join(LOSS_NAMES)}")
        with self._noting:
            self._unreported.add_loss((topic, window_start_ms), name, count)

    def delivery_failed(self) -> None:
        """Note that a message to the audit topic was given up: the report under way is said again."""
        self._has_failed = True

    def beat(
        self,
        *,
        moved_past_ms: int | None = None,
        holds: tuple[Hold, ...] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Report what is not reported yet, in at least one message: the sign of life.

        `moved_past_ms` seals every window that ends at or before it; the caller has no record of theirs in flight. It never goes
        back; a late event in such a window is reported and re-opens it. `holds`: where the caller may have records of which
        neither this report nor an earlier one tells; None: it does not say. Raises ReportNotSent.
        """
        with self._sending:
            self._report(closing=False, moved_past_ms=moved_past_ms, holds=holds, timeout_ms=timeout_ms)

    def has_news(self, *, moved_past_ms: int | None, holds: tuple[Hold, ...] | None) -> bool:
        """Return whether a report would say more than the last one, which has arrived."""
        with self._noting:
            moved = moved_past_ms is not None and (self._moved_past_ms is None or moved_past_ms > self._moved_past_ms)
            return moved or holds != self._holds or bool(self._under_way) or self._has_failed or self._unreported.has_any

    def await_turn(self, timeout_ms: int) -> bool:
        """Return whether no report is under way, after `timeout_ms` at most."""
        is_free = self._sending.acquire(timeout=timeout_ms / 1000)
        if is_free:
            self._sending.release()
        return is_free

    def seal_and_close(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Report what is left and seal every window; the caller has nothing in flight.

        Raises ReportNotSent; may then be called again.
        """
        with self._sending:
            if not self._is_closed:
                holds = None if self._holds is None else ()
                self._report(closing=True, moved_past_ms=None, holds=holds, timeout_ms=timeout_ms)
                self._is_closed = True

    def _report(self, *, closing: bool, moved_past_ms: int | None, holds: tuple[Hold, ...] | None, timeout_ms: int) -> None:
        if self._is_closed:
            raise AuditError(f"producer {self.instance} is sealed and closed: it cannot report again")
        self._send(timeout_ms)
        past_ms = max((at for at in (self._moved_past_ms, moved_past_ms) if at is not None), default=None)
        with self._noting:
            begins_epoch = not closing and self._unreported.loss_window_count > self._most_loss_windows
            messages = self._messages(self._unreported.take())
            # Only the last message seals and lets go: before it the content of the earlier ones has arrived.
            state: Literal["open", "closed"] = "closed" if closing or begins_epoch else "open"
            messages[-1] = replace(messages[-1], state=state, moved_past_ms=past_ms, holds=holds)
            self._moved_past_ms, self._holds = past_ms, holds
            if begins_epoch:
                messages.insert(0, self._begin_epoch())
            self._under_way = messages
            coalesced_count = self._unreported.coalesced_count
        if coalesced_count > self._coalesced_count:
            log.warning("batches_reported_without_crc", instance=self.instance, batches=coalesced_count - self._coalesced_count)
            self._coalesced_count = coalesced_count
        self._send(timeout_ms)

    def _send(self, timeout_ms: int) -> None:
        """Return once the report under way, if there is one, is on the audit topic."""
        if not self._under_way:
            return
        self._has_failed = False
        now_ms = self._clock.now_ms()
        send_and_flush(self._sender, self._clock, [replace(one, at_ms=now_ms) for one in self._under_way], timeout_ms)
        if self._has_failed:
            raise ReportNotSent(f"a report by producer {self.instance} was given up by its sender: the next one repeats it")
        self._under_way = []

    def _messages(self, contents: list[list[ProducerWindow]]) -> list[ProducerReport]:
        """Return a message for each list of windows, from the next sequence number on. The caller holds `_noting`."""
        messages = []
        for windows in contents:
            messages.append(
                ProducerReport(
                    instance=self.instance,
                    epoch=self._epoch,
                    sequence=self._sequence,
                    at_ms=0,
                    state="open",
                    producer_ids=tuple(sorted(self._producer_ids)),
                    topics=tuple(sorted(self._topics)),
                    moved_past_ms=self._moved_past_ms,
                    only_between_ms=self._only_between_ms,
                    holds=self._holds,
                    windows=tuple(windows),
                )
            )
            self._sequence += 1
        return messages

    def _begin_epoch(self) -> ProducerReport:
        """Begin the totals of losses from nothing, under a higher epoch: the audit adds the epochs of one instance up.

        Return its announcement, to be sent before the end of the old epoch: between the two, windows are unsealed and never
        wrongly complete.
        """
        self._unreported.forget_losses()
        self._epoch, self._sequence = max(self._epoch + 1, self._clock.now_ms()), 0
        (announcement,) = self._messages([[]])
        return announcement
