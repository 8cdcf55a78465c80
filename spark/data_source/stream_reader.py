"""A stream: positions by micro-batch, planned on the driver, and splits, read in tasks. A batch planned again is the same.

Spark keeps the positions in the query's checkpoint before a batch begins, and asks for the same ones after a restart. So a sink
that knows a batch by its number has each record once.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ..source.log_ends import LogEnds
from ..source.offset_ranges import OffsetRange
from .batch_reader import Split, splits_of
from .log_view import LogView
from .places import EARLIEST
from .positions import Positions, batch_between, looked_at, next_positions
from .topic_rows import TopicRows, report_lost_offsets


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes one for the query and calls it from one thread; tasks get copies, for `read` alone."""

    def __init__(self, rows: TopicRows) -> None:
        self._rows = rows
        self._options = rows.options
        self._view: LogView | None = None
        self._target: dict[int, int] | None = None
        """Where a query with the trigger AvailableNow ends."""
        self._density: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return where a query begins that has no checkpoint yet."""
        place, view = self._options.starting, self._log()
        at_time = view.at_times(place.times(sorted(view.ends().end))) if place.is_by_time else {}
        ends = view.ends()
        offsets = place.resolved(ends.start, ends.end, {**ends.start, **at_time})
        return Positions(topic=self._options.topic, offsets=offsets, topic_id=view.topic_id(), is_first=True).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the batch ends that begins at `start`; `start` itself if nothing is new."""
        options, view = self._options, self._log()
        positions = Positions.of_json(options.topic, start)
        topic_id, ends = view.topic_id(), view.ends()
        looked = looked_at(positions, ends, topic_id, is_earliest=self._is_earliest)
        report_lost_offsets(options.topic, looked.lost, fails=options.fails_on_data_loss)
        most = None if isinstance(limit, ReadAllAvailable) else self._limit(looked.begin, ends)
        found = next_positions(positions, looked, ends, topic_id, limit=most, target=self._target)
        return start if found is positions else found.as_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the log's ends, for the query's progress."""
        return Positions(topic=self._options.topic, offsets=self._log().ends().end).as_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = dict(self._log().ends().end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the splits of the batch from `start` to `end`; none for an empty one."""
        options, view = self._options, self._log()
        begin, upto = Positions.of_json(options.topic, start), Positions.of_json(options.topic, end)
        topic_id, ends = view.topic_id(), view.ends()
        looked = looked_at(begin, ends, topic_id, is_earliest=self._is_earliest)
        ranges, lost = batch_between(begin, upto, looked, ends, topic_id)
        report_lost_offsets(options.topic, [one for one in lost if one not in upto.lost], fails=options.fails_on_data_loss)
        return list(splits_of(view, ranges, options)) if ranges else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        yield from self._rows.read(partition.range)

    def stop(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    @property
    def _is_earliest(self) -> bool:
        place = self._options.starting
        return not place.is_by_time and place.offsets is None and place.everywhere == EARLIEST

    def _log(self) -> LogView:
        options = self._options
        if self._view is None:
            self._view = LogView(options.bootstrap, options.topic, options.client_config, wait_ms=options.wait_ms)
        return self._view

    def _limit(self, begin: dict[int, int], ends: LogEnds) -> int | None:
        """Return the most offsets of a batch, of both limits."""
        limits = [] if self._options.max_offsets is None else [self._options.max_offsets]
        if self._options.max_bytes is not None:
            if self._density is None:
                ranges = [OffsetRange(partition=one, from_offset=at, to_offset=ends.end[one]) for one, at in begin.items()]
                density = self._log().bytes_per_offset(ranges)
                self._density = density if any(one.span for one in ranges) else None
            limits.append(max(1, self._options.max_bytes // (self._density or 1)))
        return min(limits, default=None)
