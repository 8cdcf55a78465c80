"""The Data Source as Spark calls it, without Spark: readers that are planned and read in this process."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import Filter

from headrace.spark.data_source import TopicDataSource
from headrace.spark.data_source.batch_reader import FilteringReader, Split, TopicReader
from headrace.spark.data_source.stream_reader import TopicStreamReader
from headrace.spark.data_source.topic_rows import Meter

Options = Mapping[str, object]
Row = dict[str, Any]


def source(options: Options) -> tuple[TopicDataSource, Any]:
    """Return the Data Source with its schema, which it has to be asked first, as Spark does."""
    found = TopicDataSource({name: str(value) for name, value in options.items()})
    return found, found.schema()


def batch_reader(options: Options, *filters: Filter) -> TopicReader:
    found, schema = source(options)
    reader = found.reader(schema)
    assert isinstance(reader, TopicReader)
    if filters:
        assert isinstance(reader, FilteringReader)
        assert list(reader.pushFilters(list(filters))) == list(filters), "Spark is left every filter"
    return reader


def rows(reader: TopicReader | TopicStreamReader, splits: list[Any], meter: Meter | None = None) -> list[Row]:
    """Return the rows of splits, by partition and offset where they have them."""
    found: list[Row] = []
    for split in splits:
        assert isinstance(split, Split)
        for some in reader._rows.read(split.range, meter):
            some.validate(full=True)
            found += some.to_pylist()
    return sorted(found, key=address)


def all_rows(reader: TopicReader, meter: Meter | None = None) -> list[Row]:
    return rows(reader, reader.partitions(), meter)


def address(row: Row) -> tuple[int, int]:
    """Return (partition, offset), under either name; what a row has of them."""
    return row.get("_topic_partition", row.get("partition", 0)), row.get("_offset", row.get("offset", 0))


class Stream:
    """A query without Spark: positions go through JSON, as in the checkpoint."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.reader = self._reader()
        self.at: dict[str, Any] = json.loads(json.dumps(self.reader.initialOffset()))
        self.planned: list[tuple[Any, Any]] = []
        """Positions from which and to which each batch was read."""

    def _reader(self) -> TopicStreamReader:
        found, schema = source(self.options)
        reader = found.streamReader(schema)
        assert isinstance(reader, TopicStreamReader)
        return reader

    def restart(self) -> None:
        self.reader.stop()
        self.reader = self._reader()

    def trigger(self) -> list[Row]:
        """Run a batch, and again as after a restart: the rows are the same."""
        end = json.loads(json.dumps(self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit())))
        if end == self.at:
            return []
        found = rows(self.reader, list(self.reader.partitions(self.at, end)))
        self.restart()
        assert rows(self.reader, list(self.reader.partitions(self.at, end))) == found
        self.planned.append((self.at, end))
        self.at = end
        return found

    def all(self) -> list[Row]:
        """Run batches until nothing is new."""
        found: list[Row] = []
        while self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit()) != self.at:
            found += self.trigger()
        return found
