"""The thread that fills a consumer's queue: it fetches every owned partition from its position, and waits while the queue is
full.

Retriable failures are retried with a growing, bounded pause for as long as the consumer lives. Other failures are raised in the
application. If the log no longer holds a position, the missing offsets are reported as a skipped range, never skipped
silently.
"""

import threading
from collections.abc import Callable, Collection, Mapping

from ...runtime.backoff import Backoff
from ...runtime.logs import get_logger
from ..errors import LOGIN_REFUSALS, ClientError, OffsetOutOfRange
from ..fetch.fetched import CorruptRange, FetchedPartition, TopicPartition
from ..fetch.fetcher import Fetcher
from ..fetch.log_offsets import EARLIEST, LATEST
from .stream_items import Batch, Fetched, Skip
from .stream_state import StreamState

log = get_logger(__name__)

IDLE_MS = 200
"""With no partitions assigned, new ones are noticed within this time."""

HOLE = "the broker serves nothing there and continues behind it: the range failed its check, or the log has a hole"

Starts = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]


class FetchLoop:
    """Fetches for one consumer until stopped."""

    def __init__(self, state: StreamState, fetcher: Fetcher, *, starts: Starts, name: str) -> None:
        """`starts` returns where a partition begins whose log does not hold the position."""
        self._state, self._fetcher, self._starts = state, fetcher, starts
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"fetch-{name}", daemon=True)
        self._backoff = Backoff()
        self._failures = 0
        self._was_served = False
        """Then credentials that are refused have expired or were replaced: they are waited for."""

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        """Try again now what failed before: brokers came or went. Any thread."""
        self._hurry.set()

    def stop(self, timeout_ms: int = 5_000) -> None:
        """End the loop; a fetch in flight is cut short."""
        self._stop.set()
        self._hurry.set()
        self._state.wake()
        self._fetcher.close()
        if self._thread.is_alive():
            self._thread.join(timeout_ms / 1000)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._round()
            except ClientError as error:
                if self._stop.is_set():
                    return
                if not error.retriable and not (self._was_served and isinstance(error, LOGIN_REFUSALS)):
                    self._state.fail(error)
                    return
                self._pause(error)
            except Exception as error:  # a fault of ours must reach the application, not end in a silent thread
                log.error("fetch_loop_failed", exc_info=True)
                self._state.fail(error)
                return

    def _round(self) -> None:
        wanted = self._state.wanted(IDLE_MS)
        if not wanted:
            self._state.waits_for("fetch", None)
            return
        try:
            answers = self._fetcher.fetch({partition: offset for partition, (_, offset) in wanted.items()})
        except OffsetOutOfRange as error:
            self._reset(error, wanted)
            return
        for answer in answers:
            name = TopicPartition(answer.topic, answer.partition)
            epoch, offset = wanted[name]
            items = in_order(answer, name, epoch, offset)
            self._state.put(items, partition=name, epoch=epoch, next_offset=max(offset, answer.next_offset))
        failed = next((answer.error for answer in answers if answer.error is not None), None)
        if failed is not None:
            self._pause(failed)
            return
        if self._failures:
            log.info("fetching_again", after_failures=self._failures)
        self._failures, self._was_served = 0, True
        self._state.waits_for("fetch", None)

    def _pause(self, error: ClientError) -> None:
        if not self._failures:  # once for a series of failures, not for each attempt
            log.warning("fetching_failed", error=str(error))
        self._state.waits_for("fetch", error)
        self._hurry.clear()
        if self._stop.is_set():
            return
        self._hurry.wait(self._backoff.wait_ms(self._failures) / 1000)
        self._failures += 1

    def _reset(self, error: OffsetOutOfRange, wanted: dict[TopicPartition, tuple[int, int]]) -> None:
        name = TopicPartition(error.topic, error.partition)
        epoch, offset = wanted[name]
        begin = max(self._starts([name])[name], error.log_start_offset)
        log.warning("offset_out_of_range", topic=name.topic, partition=name.partition, offset=offset, begins_again_at=begin)
        skipped: list[Fetched] = []
        if begin > offset:
            reason = f"the log begins at {error.log_start_offset}: what was before it has expired"
            is_expired = begin <= error.log_start_offset
            gone = CorruptRange(from_offset=offset, to_offset=begin, reason=reason, is_expired=is_expired)
            skipped.append(Skip(partition=name, epoch=epoch, corrupt=gone))
        self._state.put(skipped, partition=name, epoch=epoch, next_offset=begin)


def in_order(answer: FetchedPartition, name: TopicPartition, epoch: int, offset: int) -> list[Fetched]:
    """Return the batches and the unreadable ranges as one list, sorted by offset. The list begins at `offset`, where the last
    fetch ended.

    A log has no gaps: each batch of our broker begins where the previous one ended, and so does Kafka's unless the topic is
    compacted. A gap between batches is therefore reported as skipped, too: the broker never serves a range that failed its own
    check.
    """
    found: list[tuple[int, int, int, Fetched]] = []
    behind = offset
    for header, batch in answer.batches:
        if header.next_offset > offset:
            behind = max(behind, header.position)
            item = Batch(partition=name, epoch=epoch, header=header, batch=batch, from_offset=behind)
            found.append((header.base_offset, behind, header.next_offset, item))
            behind = header.next_offset
    for bad in answer.corrupt:
        if bad.to_offset > offset:
            cut = CorruptRange(from_offset=max(offset, bad.from_offset), to_offset=bad.to_offset, reason=bad.reason)
            found.append((bad.from_offset, bad.from_offset, bad.to_offset, Skip(partition=name, epoch=epoch, corrupt=cut)))
    items: list[Fetched] = []
    # By base offset: a batch of a dense log has no position of its own, and what is computed as such is in no order.
    for _, begin, end, fetched in sorted(found, key=lambda one: one[0]):
        if begin > offset:
            hole = CorruptRange(from_offset=offset, to_offset=begin, reason=HOLE)
            items.append(Skip(partition=name, epoch=epoch, corrupt=hole))
        items.append(fetched)
        offset = max(offset, end)
    return items


def reset_point(auto_offset_reset: str) -> int:
    """Return `EARLIEST` for `smallest` or `earliest`, `LATEST` for `largest` or `latest`. Raises ValueError for another word."""
    points = {"smallest": EARLIEST, "earliest": EARLIEST, "largest": LATEST, "latest": LATEST}
    if auto_offset_reset not in points:
        raise ValueError(f"auto_offset_reset={auto_offset_reset!r}: smallest or largest")
    return points[auto_offset_reset]
