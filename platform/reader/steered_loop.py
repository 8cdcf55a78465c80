"""A reading loop that an application steers while it runs (`seek`, `pause`), and whose records may be done on an event loop.

Sinks need neither, and run the `ReadingLoop` itself.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..audit.model.messages import SKIPPED_BY_SEEK
from ..client.consumer.zk_errors import StreamMisused
from ..client.errors import ClientError
from ..client.fetch.fetched import TopicPartition
from ..errors import HeadraceError
from ..runtime.logs import get_logger
from .decoding.event_decoder import Undecodable
from .handling import FAILED
from .handoff import Handoff
from .loop_settings import LoopSettings
from .processor import Processor
from .reading_loop import ReadingLoop
from .record import EventRecord

if TYPE_CHECKING:
    from ..client.deduplication import Deduplicator

log = get_logger(__name__)

MOST_IN_FLIGHT = 10_000
"""Of records that are done out of order; with more, reading waits for the first of them."""


class SteeredLoop(ReadingLoop):
    """One member of an `EventReader`."""

    def __init__(
        self,
        settings: LoopSettings,
        processor: Processor,
        *,
        seen: "Deduplicator | None" = None,
        is_paused: Callable[[TopicPartition], bool] = lambda _name: False,
        handoff: Handoff | None = None,
    ) -> None:
        """`handoff`: records are done on an event loop, and `read_ahead` is called instead of `next`."""
        super().__init__(settings, processor, seen=seen)
        self._is_paused, self._handoff = is_paused, handoff
        self._orders: deque[Callable[[], bool]] = deque()
        """What other threads want to be done between two records. An order that returns False comes again."""

    @property
    def _is_ordered(self) -> bool:  # type: ignore[override]
        return bool(self._orders)

    def read_ahead(self) -> None:
        """Hand one more record to the event loop, or wait a moment for room. Flushes in between."""
        handoff = self._handoff
        assert handoff is not None
        if not handoff.has_room or self._in_flight.count >= MOST_IN_FLIGHT:
            self.attend()
            return
        record = self.next()
        if record is not None:
            self._given = None
            self._in_flight.add(record.of, record.offset)
            handoff.put(record)

    def attend(self) -> None:
        """Do for a moment all that is due, and read nothing."""
        self._between_records()
        self._consumer.attend()
        if self._handoff is not None:
            self._handoff.wait(50)

    # ---- records that are done on an event loop

    def _settle(self) -> None:
        self._hear()
        if self._orders:
            self._carry_out()

    def _hear(self) -> None:
        handoff = self._handoff
        if handoff is None:
            return
        for record, failed in handoff.take_done():
            act = partial(self.taken, record) if failed is None else partial(self._refuse, record, failed)
            self._in_flight.done(record.of, record.offset, act)
        self._is_overdue = handoff.longest_in_hand_ms() >= self.settings.max_handle_ms

    def _refuse(self, record: EventRecord, reason: str) -> None:
        self.refused += 1
        self._quarantine.put_record(record.message, Undecodable(FAILED, reason))
        self._count_now(record.message, is_held=False)

    def _take_back(self, names: Collection[TopicPartition]) -> None:
        """Have what waits for the event loop read again, later."""
        taken = [] if self._handoff is None else self._handoff.purge(names)
        for record in reversed(taken):
            self.read -= 1
            self._in_flight.drop_from(record.of, record.offset)
            with suppress(StreamMisused):
                self._consumer.seek(record.of, record.offset)

    def _await_hands(self, names: Collection[TopicPartition]) -> None:
        """Wait until the event loop is done with what it has of these partitions, while they are this member's."""
        self._take_back(names)
        if (handoff := self._handoff) is not None:
            while handoff.has_in_hand(names) and self._consumer.may_act:
                self._hear()
                handoff.wait(50)
            self._hear()

    # ---- orders of other threads

    def order(self, act: Callable[[], bool]) -> None:
        """Have this done between two records; any thread. `act` returns whether it is done, or is to be called again."""
        if self._handoff is not None:
            self._handoff.hold()
        self._orders.append(act)

    def obey_pauses(self) -> bool:
        """An order: pause and resume as `is_paused` says."""
        paused = [name for name in self._begun_at if self._is_paused(name)]
        self._take_back(paused)
        self._consumer.resume([name for name in self._begun_at if name not in paused])
        self._consumer.pause(paused)
        return True

    def seek(self, name: TopicPartition, target: int) -> bool:
        """An order: continue at `target`. What is done before is reported and committed first."""
        if name not in self._begun_at:
            log.warning(
                "seek_left_out", topic=name.topic, partition=name.partition, to_offset=target, why="the partition is gone"
            )
            return True
        self._take_back([name])
        if not self._in_flight.is_idle(name) or not self._consumer.may_act:
            return False
        self._flush()
        at = self._consumer.positions()[name]
        if target > at:
            self._skip(name, at, target, SKIPPED_BY_SEEK)
        elif self._counts is not None:
            self._counts.go_back(name, target)
        self._begun_at[name] = min(self._begun_at[name], target)
        self._consumer.seek(name, target)
        self._committed[name] = -1  # so that the next flush commits it, be it before or behind what was committed
        self._flush_at_ms = self._look_at_ms = 0
        log.info("seek", topic=name.topic, partition=name.partition, from_offset=at, to_offset=target)
        return True

    def _carry_out(self) -> None:
        try:
            while self._orders and self._orders[0]():
                self._orders.popleft()
                if self._handoff is not None:
                    self._handoff.release()
        except HeadraceError as error:
            if not error.retriable and not isinstance(error, ClientError):
                raise
            self._wait_because(error)
            assert self._stop is not None
            self._stop.wait(200)

    def _on_assigned(self, starts: Mapping[TopicPartition, int]) -> None:
        paused = [name for name in starts if self._is_paused(name)]
        self._consumer.resume([name for name in starts if name not in paused])  # it may have been paused when it was here last
        self._consumer.pause(paused)
        super()._on_assigned(starts)

    def _on_stalled(self, after_ms: int) -> None:
        """On the membership's thread, while this one waits for the application."""
        given = self._given
        at: dict[str, Any] = {} if given is None else {"topic": given.topic, "partition": given.partition, "offset": given.offset}
        log.error("handler_stalled", group=self.settings.group, after_ms=after_ms, **at)
        why = f"the handler has not come back for {after_ms} ms: this member has left its group until it does"
        self._status.write("stalled", reason=why, group=self.settings.group, consumer_id=self.settings.consumer_id, **at)
