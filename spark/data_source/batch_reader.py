"""A batch: its ranges, planned on the driver, narrowed by filters, and each split read in a task."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ..errors import BadOption
from ..source.log_ends import LogEnds
from ..source.offset_ranges import OffsetRange, ranges_from_json, split_ranges
from .filters import Bounds, bounds_of
from .layout import Layout
from .log_view import LogView
from .options import Options
from .places import Place
from .positions import Gap
from .topic_rows import TopicRows, report_lost_offsets


@dataclass(frozen=True)
class Split(InputPartition):
    """One task's range."""

    partition: int
    from_offset: int
    to_offset: int

    @property
    def range(self) -> OffsetRange:
        return OffsetRange(partition=self.partition, from_offset=self.from_offset, to_offset=self.to_offset)


class TopicReader(DataSourceReader):
    """Plans the splits on the driver and reads each one in a task."""

    def __init__(self, rows: TopicRows) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Return the splits, at least one: for a source without partitions Spark calls `read(None)`."""
        options = self._rows.options
        view = LogView(options.bootstrap, options.topic, options.client_config, wait_ms=options.wait_ms)
        try:
            return list(splits_of(view, planned(view, options, self._rows.bounds), options)) or [Split(0, 0, 0)]
        finally:
            view.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        yield from self._rows.read(partition.range)


class FilteringReader(TopicReader):
    """Also takes Spark's filters. Spark refuses such a reader where `spark.sql.python.filterPushdown.enabled` is false."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take from the filters what narrows the read; leave all of them to Spark as well."""
        layout = Layout(self._rows.options, self._rows.target, self._rows.raw_names)
        self._rows = replace(self._rows, bounds=bounds_of(filters, layout.of_the_record))
        return filters


def planned(view: LogView, options: Options, bounds: Bounds) -> list[OffsetRange]:
    """Return the ranges of a batch. Offsets that are not in the log (any more, or yet) are named, or an error."""
    named_ms = [_asked(view, place) for place in (options.starting, options.ending)]
    ends = view.ends()
    wanted = ranges_from_json(options.ranges) if options.ranges is not None else _between(options, ends, *named_ms)
    wanted = _narrowed(wanted, bounds)
    kept, lost = _in_the_log(wanted, ends)
    report_lost_offsets(options.topic, lost, fails=options.fails_on_data_loss)
    if bounds.from_ms is None or bounds.from_ms < 0:  # before 1970 a time would be one of the protocol's words
        return kept
    begins = view.at_times({one.partition: bounds.from_ms for one in kept if one.span})
    return [replace(one, from_offset=min(max(one.from_offset, begins.get(one.partition, 0)), one.to_offset)) for one in kept]


def _asked(view: LogView, place: Place) -> dict[int, int]:
    if not place.is_by_time:
        return {}
    return view.at_times(place.times(sorted(view.ends().end)))


def _between(options: Options, ends: LogEnds, start_at: dict[int, int], end_at: dict[int, int]) -> list[OffsetRange]:
    # Partitions that were added since the times were asked for begin and end where they are.
    start = options.starting.resolved(ends.start, ends.end, {**ends.start, **start_at})
    end = options.ending.resolved(ends.start, ends.end, {**ends.end, **end_at})
    found = []
    for partition in sorted(ends.end):
        if start[partition] > end[partition] and options.starting.offsets and options.ending.offsets:
            reason = f"partition {partition} ends at {end[partition]}, before it begins, at {start[partition]}"
            raise BadOption(options.ending.option, reason)
        upto = max(start[partition], end[partition])
        found.append(OffsetRange(partition=partition, from_offset=start[partition], to_offset=upto))
    return found


def _narrowed(ranges: list[OffsetRange], bounds: Bounds) -> list[OffsetRange]:
    found = []
    for one in ranges:
        if bounds.partitions is None or one.partition in bounds.partitions:
            begin = max(one.from_offset, bounds.from_offset)
            end = one.to_offset if bounds.to_offset is None else min(one.to_offset, bounds.to_offset)
            if begin < end:
                found.append(replace(one, from_offset=begin, to_offset=end))
    return found


def _in_the_log(ranges: list[OffsetRange], ends: LogEnds) -> tuple[list[OffsetRange], list[Gap]]:
    kept, lost = list[OffsetRange](), list[Gap]()
    for one in ranges:
        first, end = ends.start.get(one.partition, 0), ends.end.get(one.partition, 0)
        if one.from_offset < first:
            reason = f"the log begins at {first} now (retention, or deleted records)"
            lost.append(_gap(one, one.from_offset, min(first, one.to_offset), reason))
        if one.to_offset > end:
            reason = f"the log ends at {end}: it has lost its tail, or never had them"
            lost.append(_gap(one, max(end, one.from_offset), one.to_offset, reason))
        begin, upto = max(one.from_offset, first), min(one.to_offset, end)
        if begin < upto:
            kept.append(replace(one, from_offset=begin, to_offset=upto))
    return kept, lost


def _gap(one: OffsetRange, from_offset: int, to_offset: int, reason: str) -> Gap:
    return Gap(partition=one.partition, from_offset=from_offset, to_offset=to_offset, reason=reason)


def splits_of(view: LogView, ranges: list[OffsetRange], options: Options) -> Iterator[Split]:
    """Yield the ranges cut into tasks: about `pieces`, at least `minPartitions`, none longer than `max_piece_span`.

    Ranges that the user named are tasks as they are, unless pieces are asked for.
    """
    if options.ranges is None or options.is_cut:
        density = view.bytes_per_offset(ranges)
        least = {} if options.min_partitions is None else {"min_span": 1}
        wanted = max(options.splits, options.min_partitions or 0)
        ranges = split_ranges(ranges, splits=wanted, max_span=options.max_split_span, bytes_per_offset=density, **least)
    for one in ranges:
        if one.span:
            yield Split(one.partition, one.from_offset, one.to_offset)
