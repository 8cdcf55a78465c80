"""Reads the audit topic: every tier's reports, in order. Its position is written in the transaction of what they changed."""

from collections.abc import Mapping
from typing import Protocol

from ....client.connection.cluster import Cluster
from ....client.errors import OffsetOutOfRange
from ....client.fetch.fetched import TopicPartition
from ....client.fetch.fetcher import Fetcher
from ....client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ....runtime.clock import Clock
from ....runtime.layout import AUDIT_TOPIC
from ....runtime.logs import get_logger
from ....wire.batch.record_batch import iter_records
from ....wire.errors import WireError
from ...model.tiers import PRODUCER
from ...publisher import see_to_audit_topic
from ..store.ledger import BatchName, Ledger, Message
from ..store.open_books import is_audited
from .reading_thread import ReadingThread

log = get_logger(__name__)


TAKE_EVERY_MS = 100
"""At the topic's end, reports are taken so often at most. Thousands of producers would make a transaction for each beat."""


class Rebuilder(Protocol):
    """What a lost store is rebuilt from."""

    def rebuild(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        """Replace the store by a checkpoint from which the audit topic, which reaches from `starts` to `ends`, can be read on;
        return whether there was one.
        """

    def nothing_lost(self) -> None:
        """Know that the store needs no rebuilding."""

    def topics_lost(self) -> None:
        """Know that the audit topic is another one than before, or was cut, while the store is whole."""


class Collector(ReadingThread):
    """The thread that reads the audit topic of the live cluster."""

    def __init__(self, bootstrap: str, ledger: Ledger, clock: Clock, rebuilder: Rebuilder, *, fetch_wait_ms: int = 500) -> None:
        super().__init__("audit-collector", Cluster(bootstrap, client_id="headrace-audit-collector"))
        self._fetcher = Fetcher(self._cluster, max_wait_ms=fetch_wait_ms, hides_aborted=True)
        self._ledger = ledger
        self._clock = clock
        self._rebuilder = rebuilder
        self._offsets: dict[TopicPartition, int] = {}
        self._backlog_ends: dict[int, int] = {}
        """Partition → where the audit topic ended when this thread first saw it: what stands below came while nobody listened."""
        self._cut: dict[int, int] = {}
        """Partition → where the audit topic begins now, where it was found to end before our position."""
        self._has_heard = False
        """Since this thread began: an outage is one that it has seen begin and end."""
        self._away_since_ms: int | None = None
        self._lost: tuple[int, dict[TopicPartition, int]] | None = None
        """When a loss of reports was noticed, by the monotonic clock, and where live ended then; None a deadline later."""
        self.failure = "has not reached the live cluster yet"

    def _read_once(self) -> None:
        if not self._offsets:
            self._begin()
        began_ms = self._clock.monotonic_ms()
        if self._collect():
            self._stop.wait(max(0, TAKE_EVERY_MS - (self._clock.monotonic_ms() - began_ms)))

    def _begin_again(self) -> None:
        self._offsets = {}

    def _out_of_range(self, error: OffsetOutOfRange) -> None:
        at = self._ledger.collector_positions().get(error.partition, error.log_start_offset)
        if at > error.log_start_offset:
            # The topic ends before our position: it was cut, or created again.
            log.error("reports_lost", partition=error.partition, at=error.offset, log_start_offset=error.log_start_offset)
            self._cut[error.partition] = error.log_start_offset
        self._offsets = {}

    def _tell_recovered(self) -> None:
        log.info("collecting")

    def _tell_failed(self, error: Exception, *, is_fault: bool) -> None:
        if self._away_since_ms is None and self._has_heard:
            self._away_since_ms = self._clock.now_ms()
        log.warning("not_collecting", reason=str(error), exc_info=is_fault)

    def _begin(self) -> None:
        """Make the topic where it is missing, and find the offsets to continue from."""
        see_to_audit_topic(self._cluster, timeout_ms=2_000)
        known = self._ledger.collector_positions()
        partitions = [TopicPartition(AUDIT_TOPIC, partition) for partition in self._cluster.partitions(AUDIT_TOPIC)]
        starts = {
            name.partition: start for name, start in log_offsets(self._cluster, dict.fromkeys(partitions, EARLIEST)).items()
        }
        ends = {name.partition: end for name, end in log_offsets(self._cluster, dict.fromkeys(partitions, LATEST)).items()}
        if not self._backlog_ends:
            self._backlog_ends = ends
        if not known or any(known.get(partition, start) < start for partition, start in starts.items()):
            self._rebuilder.rebuild(starts, ends)
            known = self._ledger.collector_positions()
        else:
            self._rebuilder.nothing_lost()
        anew = self._cut | {
            partition: start for partition, start in starts.items() if self._is_another(partition, start, ends[partition])
        }
        if anew:
            log.error("reports_lost", at=known, log_starts=anew, reason="the audit topic is another one than was read before")
            self._lose_reports(anew)
            self._rebuilder.topics_lost()
            self._cut = {}
            known = self._ledger.collector_positions()
        lost = {partition: start for partition, start in starts.items() if known.get(partition, 0) < start}
        if lost:
            log.error("reports_lost", at=known, log_starts=lost, reason="no checkpoint holds what the audit topic no longer has")
            self._lose_reports(lost)
        self._offsets = {
            TopicPartition(AUDIT_TOPIC, partition): max(known.get(partition, 0), start) for partition, start in starts.items()
        }

    def _lose_reports(self, starts: Mapping[int, int]) -> None:
        ends = self._live_ends()
        self._ledger.lose_reports(starts, ends)
        self._lost = self._clock.monotonic_ms(), ends

    def _see_late_writers(self) -> None:
        """Count what began to write until a deadline after a loss as unread reports, too: it may have announced itself in the
        lost part, and end before its next beat.
        """
        settings = self._ledger.books.settings
        deadline_ms = settings.deadline_ms.get(PRODUCER, settings.default_deadline_ms)
        if self._lost is not None and self._clock.monotonic_ms() - self._lost[0] > deadline_ms:
            self._ledger.lost_until(self._live_ends(), self._lost[1])
            self._lost = None

    def _live_ends(self) -> dict[TopicPartition, int]:
        """Return where each partition of the live cluster ends. Asks all of them: reports are lost seldom."""
        topics = [topic for topic in self._cluster.topics() if is_audited(topic)]
        names = [TopicPartition(topic, partition) for topic in topics for partition in self._cluster.partitions(topic)]
        return log_offsets(self._cluster, dict.fromkeys(names, LATEST)) if names else {}

    def _is_another(self, partition: int, start: int, end: int) -> bool:
        """Return whether what was read last is not in the topic, which reaches from `start` to `end`: a disk was lost, and more
        has come since than there was. (A topic that is shorter than before shows itself.)
        """
        tail, at = self._ledger.collector_tail(partition), self._ledger.collector_positions().get(partition, 0)
        if tail is None or not start <= tail.base_offset < at <= end:
            return False
        (fetched,) = self._fetcher.fetch({TopicPartition(AUDIT_TOPIC, partition): tail.base_offset})
        if fetched.error is not None:
            raise fetched.error
        found = next((header for header, _ in fetched.batches if header.next_offset > tail.base_offset), None)
        return found is not None and (found.base_offset, found.crc) != tail

    def _collect(self) -> bool:
        """Take in what has come; return whether that was all and anything."""
        asked_ms = self._clock.now_ms()
        messages: list[Message] = []
        next_offsets: dict[int, int] = {}
        tails: dict[int, BatchName] = {}
        is_at_end = True
        for fetched in self._fetcher.fetch(self._offsets):
            name = TopicPartition(fetched.topic, fetched.partition)
            if fetched.error is not None:
                is_at_end = False
                continue
            for bad in fetched.corrupt:
                log.error("reports_unreadable", partition=fetched.partition, from_offset=bad.from_offset, to_offset=bad.to_offset)
            for header, batch in fetched.batches:
                if header.is_control:
                    continue
                tails[fetched.partition] = BatchName(header.base_offset, header.crc)
                try:
                    records = list(iter_records(batch))
                except WireError as error:
                    log.error("reports_unreadable", partition=fetched.partition, offset=header.base_offset, reason=str(error))
                    continue
                is_backlog = header.base_offset < self._backlog_ends.get(fetched.partition, 0)
                messages += [
                    Message(
                        fetched.partition,
                        one.offset,
                        None if one.value is None else bytes(one.value),
                        one.timestamp_ms if is_backlog else None,
                    )
                    for one in records
                    if one.offset >= fetched.requested_offset
                ]
            if fetched.next_offset > self._offsets[name]:
                next_offsets[fetched.partition] = fetched.next_offset
            is_at_end &= fetched.next_offset >= fetched.high_watermark
        if next_offsets:
            if not self._ledger.take_reports(messages, self._at(), next_offsets, tails):
                self._offsets = {}  # the books were loaded anew
                return False
            for partition, offset in next_offsets.items():
                self._offsets[TopicPartition(AUDIT_TOPIC, partition)] = offset
        if is_at_end:
            self._see_late_writers()
            if self._away_since_ms is not None:
                self._ledger.topic_was_away(self._away_since_ms, asked_ms)
            self._away_since_ms, self._has_heard = None, True
            self._ledger.heard_all(asked_ms, self._at())
        return is_at_end and bool(next_offsets)

    def _at(self) -> dict[int, int]:
        return {name.partition: offset for name, offset in self._offsets.items()}
