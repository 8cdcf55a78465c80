"""A task's part of a read: one range of a topic to rows, with what was read counted. Travels to the tasks; opens all it needs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ...client.connection.cluster import Cluster
from ...client.errors import OffsetOutOfRange
from ...client.security.chosen import named_for
from ...runtime.clock import SystemClock
from ...runtime.logs import get_library_logger
from ...schema_registry.client.registry_client import RegistryClient
from ...wire.batch.record_batch import BatchHeader, Record
from ..errors import LogMoved, NewFields, OffsetsLost
from ..source.cluster_batches import cluster_batches
from ..source.cluster_quarantine import ClusterQuarantine
from ..source.decoding import OF_THE_RECORD, BlockDecoder, Decoded
from ..source.offset_ranges import OffsetRange
from ..source.record_reader import Batches, CorruptOffsets
from ..source.split_reader import SplitReader
from ..source.split_source import schema_of
from ..source.task_reports import TaskReport
from .filters import Bounds
from .layout import Layout
from .options import Options
from .positions import Gap
from .raw_columns import RawDecoder, TimeKinds, raw_columns

log = get_library_logger(__name__)
# Spark's workers have no handler of ours: the message itself has to hold the fields.
_TOLD_MOST = 1_000
_ALL = Bounds()
_told: set[tuple[str, int]] = set()
"""Schemas whose fields without a column this process has reported of."""


@dataclass(slots=True)
class Meter:
    """What reading took."""

    fetched_bytes: int = 0
    """Of batches, as they came."""
    batches: int = 0
    batches_skipped: int = 0
    """Not even opened, because their header says that no record can be wanted."""
    records: int = 0
    """Of the batches that were opened, within the range."""
    records_filtered: int = 0
    """Not decoded, because a filter does not want them."""
    values_decoded: int = 0
    """Of events: rows times fields."""
    lost: list[Gap] = field(default_factory=list)
    """Of the range that is read now: the log's begin has moved into it."""
    report: TaskReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRows:
    """How one read makes rows of ranges."""

    options: Options
    target: pa.Schema
    """The columns that Spark wants."""
    raw_names: frozenset[str]
    is_chosen: bool
    """The columns were named by the user: what else events have is left out without a word."""
    bounds: Bounds = _ALL

    def read(self, split: OffsetRange, meter: Meter | None = None) -> Iterator[pa.RecordBatch]:
        """Yield a range's rows, its quarantine acknowledged at the end. Raises WarehouseError, ClientError, RegistryError."""
        options, meter = self.options, meter or Meter()
        if not split.span:
            return
        meter.lost.clear()
        layout = Layout(options, self.target, self.raw_names)
        kinds = TimeKinds()
        decoder = self._decoder(layout, split.partition, kinds)
        security = named_for(options.bootstrap, options.client_config)
        cluster = Cluster(options.bootstrap, client_id="headrace-source", security=security)
        quarantine = ClusterQuarantine(options.quarantine, options.client_config) if options.quarantine else None

        def on_report(report: TaskReport) -> None:
            meter.report = report

        try:
            batches = _Watched(self._unbroken(cluster_batches(cluster, options.topic), meter), self.bounds, kinds, meter)
            for rows in SplitReader(
                topic=options.topic,
                cluster=options.cluster,
                split=split,
                batches=batches,
                decoder=_Sieve(decoder, self.bounds, meter),
                quarantine=quarantine,
                on_report=on_report,
                clock=SystemClock(),
                wants_digest=False,
                on_left_out=self._on_left_out,
            ).rows():
                yield layout.arranged(rows)
        finally:
            if quarantine is not None:
                quarantine.close()
            cluster.close()
        meter.values_decoded += decoder.values_decoded
        self._log_split(split, meter)

    def _decoder(self, layout: Layout, partition: int, kinds: TimeKinds) -> BlockDecoder | RawDecoder:
        raw = raw_columns(self.options.topic, kinds)
        if layout.is_raw:
            return RawDecoder(layout.decoded, partition, raw)
        schemas = schema_of(RegistryClient(self.options.registry))
        return BlockDecoder(layout.decoded, partition, schemas, of_the_record={**OF_THE_RECORD, **raw}, projects=True)

    def _on_left_out(self, schema_id: int, names: Sequence[str]) -> None:
        topic = self.options.topic
        if self.is_chosen:
            return
        if not self.options.ignores_new_fields:
            raise NewFields(topic, schema_id, names)
        if (topic, schema_id) not in _told and len(_told) < _TOLD_MOST:
            _told.add((topic, schema_id))
            log.warning("new_fields_ignored", topic=topic, schema_id=schema_id, fields=list(names))

    def _unbroken(self, inner: Batches, meter: Meter) -> Batches:
        """Return the batches of a range; where the log's begin has moved into it, continue there, if that is wished."""
        topic = self.options.topic

        def batches(
            wanted: OffsetRange, on_corrupt: Callable[[CorruptOffsets], None]
        ) -> Iterator[tuple[BatchHeader, memoryview]]:
            at = wanted.from_offset
            while at < wanted.to_offset:
                rest = OffsetRange(partition=wanted.partition, from_offset=at, to_offset=wanted.to_offset)
                try:
                    yield from inner(rest, on_corrupt)
                    return
                except OffsetOutOfRange as error:
                    begin = min(error.log_start_offset, wanted.to_offset)
                    if begin <= error.offset:
                        reason = f"was to be read at {error.offset}, which the log does not reach any more; try again"
                        raise LogMoved(topic, wanted.partition, reason) from error
                    reason = f"the log begins at {error.log_start_offset} now (retention, or deleted records)"
                    gap = Gap(partition=wanted.partition, from_offset=error.offset, to_offset=begin, reason=reason)
                    report_lost_offsets(topic, [gap], fails=self.options.fails_on_data_loss)
                    meter.lost.append(gap)
                    at = begin

        return batches

    def _log_split(self, split: OffsetRange, meter: Meter) -> None:
        report = meter.report
        log.info(
            "split_read",
            topic=self.options.topic,
            partition=split.partition,
            from_offset=split.from_offset,
            to_offset=split.to_offset,
            rows=report.row_count if report else 0,
            bytes=meter.fetched_bytes,
            batches=meter.batches,
            batches_skipped=meter.batches_skipped,
            records=meter.records,
            records_filtered=meter.records_filtered,
            values_decoded=meter.values_decoded,
        )
        if report and report.quarantined_by_code:
            log.warning(
                "records_quarantined",
                topic=self.options.topic,
                partition=split.partition,
                from_offset=split.from_offset,
                to_offset=split.to_offset,
                by_code=dict(report.quarantined_by_code),
            )


def report_lost_offsets(topic: str, lost: Sequence[Gap], *, fails: bool) -> None:
    """Name each gap in the log; raise OffsetsLost for the first one instead, if the read fails on data loss."""
    for one in lost:
        if fails:
            raise OffsetsLost(topic, one.partition, one.from_offset, one.to_offset, one.reason)
        log.warning(
            "offsets_lost",
            topic=topic,
            partition=one.partition,
            from_offset=one.from_offset,
            to_offset=one.to_offset,
            reason=one.reason,
        )


class _Watched:
    """Batches, counted; those that cannot have a wanted record are skipped unopened."""

    def __init__(self, inner: Batches, bounds: Bounds, kinds: TimeKinds, meter: Meter) -> None:
        self._inner, self._bounds, self._kinds, self._meter = inner, bounds, kinds, meter

    def __call__(
        self, wanted: OffsetRange, on_corrupt: Callable[[CorruptOffsets], None]
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        for header, batch in self._inner(wanted, on_corrupt):
            self._meter.fetched_bytes += header.size_bytes
            self._meter.batches += 1
            if self._is_outside(header):
                self._meter.batches_skipped += 1
                continue
            self._kinds.note(header.base_offset, int(header.is_log_append_time))
            yield header, batch

    def _is_outside(self, header: BatchHeader) -> bool:
        """Trusts only headers that are known to enclose their records' times: a writer may promise what it does not hold."""
        bounds = self._bounds
        if not header.timestamps_bounded:
            return False
        return (bounds.from_ms is not None and header.max_timestamp_ms < bounds.from_ms) or (
            bounds.to_ms is not None and header.first_timestamp_ms >= bounds.to_ms
        )


class _Sieve:
    """A decoder of those records only that the bounds want."""

    def __init__(self, inner: BlockDecoder | RawDecoder, bounds: Bounds, meter: Meter) -> None:
        self._inner, self._bounds, self._meter = inner, bounds, meter
        self._is_open = bounds.from_ms is None and bounds.to_ms is None

    def decode(self, records: Sequence[Record]) -> Decoded:
        for gap in self._meter.lost:  # a batch across the log's begin comes whole
            records = [one for one in records if not gap.from_offset <= one.offset < gap.to_offset]
        self._meter.records += len(records)
        if not self._is_open:
            wanted = [one for one in records if self._bounds.has_time(one.timestamp_ms)]
            self._meter.records_filtered += len(records) - len(wanted)
            records = wanted
        return self._inner.decode(records)
