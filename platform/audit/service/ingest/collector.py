"""Reads the audit topic: every tier's reports, in order. Its position is written in the transaction of what they changed."""

from ....client.connection.cluster import Cluster
from ....client.errors import OffsetOutOfRange
from ....client.fetch.fetched import TopicPartition
from ....client.fetch.fetcher import Fetcher
from ....client.fetch.log_offsets import EARLIEST, log_offsets
from ....runtime.clock import Clock
from ....runtime.layout import AUDIT_TOPIC
from ....runtime.logs import get_logger
from ....wire.batch.record_batch import iter_records
from ....wire.errors import WireError
from ...publisher import see_to_audit_topic
from ..store.ledger import Ledger
from .reading_thread import ReadingThread

log = get_logger(__name__)


class Collector(ReadingThread):
    """The thread that reads the audit topic of the live cluster."""

    def __init__(self, bootstrap: str, ledger: Ledger, clock: Clock, *, fetch_wait_ms: int = 500) -> None:
        super().__init__("audit-collector", Cluster(bootstrap, client_id="headrace-audit-collector"))
        self._fetcher = Fetcher(self._cluster, max_wait_ms=fetch_wait_ms)
        self._ledger = ledger
        self._clock = clock
        self._offsets: dict[TopicPartition, int] = {}
        self.failure = "has not reached the live cluster yet"

    def _read_once(self) -> None:
        if not self._offsets:
            self._begin()
        self._collect()

    def _begin_again(self) -> None:
        self._offsets = {}

    def _out_of_range(self, error: OffsetOutOfRange) -> None:
        log.error("reports_lost", partition=error.partition, at=error.offset, log_start_offset=error.log_start_offset)
        self._offsets[TopicPartition(error.topic, error.partition)] = error.log_start_offset

    def _tell_recovered(self) -> None:
        log.info("collecting")

    def _tell_failed(self, error: Exception, *, is_fault: bool) -> None:
        log.warning("not_collecting", reason=str(error), exc_info=is_fault)

    def _begin(self) -> None:
        """Make the topic where it is missing, and find the offsets to go on from."""
        see_to_audit_topic(self._cluster, timeout_ms=2_000)
        known = self._ledger.collector_positions()
        partitions = [TopicPartition(AUDIT_TOPIC, partition) for partition in self._cluster.partitions(AUDIT_TOPIC)]
        starts = log_offsets(self._cluster, {name: EARLIEST for name in partitions if name.partition not in known})
        self._offsets = {name: known.get(name.partition, starts.get(name, 0)) for name in partitions}

    def _collect(self) -> None:
        asked_ms = self._clock.now_ms()
        messages: list[tuple[int, int, bytes | None]] = []
        next_offsets: dict[int, int] = {}
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
                try:
                    records = [(one.offset, one.value) for one in iter_records(batch)]
                except WireError as error:
                    log.error("reports_unreadable", partition=fetched.partition, offset=header.base_offset, reason=str(error))
                    continue
                messages += [
                    (fetched.partition, offset, None if value is None else bytes(value))
                    for offset, value in records
                    if offset >= fetched.requested_offset
                ]
            if fetched.next_offset > self._offsets[name]:
                next_offsets[fetched.partition] = fetched.next_offset
            is_at_end &= fetched.next_offset >= fetched.high_watermark
        if next_offsets:
            self._ledger.take_reports(messages, next_offsets)
            for partition, offset in next_offsets.items():
                self._offsets[TopicPartition(AUDIT_TOPIC, partition)] = offset
        if is_at_end:
            self._ledger.heard_all(asked_ms)
