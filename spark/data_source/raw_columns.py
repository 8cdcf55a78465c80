"""A record as it is in the log: the columns of Spark's Kafka source, under its names and types, and the schema's id.

Source: Spark's Structured Streaming + Kafka Integration Guide.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...wire.batch.record_batch import Record
from ...wire.errors import WireError
from ...wire.schema_id import SIZE, unframe
from ..source.decoding import FIRST_MS, LAST_MS, Decoded, RecordColumn, Rejected
from ..source.split_reader import BLOCK_RECORDS

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
RAW_COLUMNS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.field("element", _HEADER))),
        pa.field("schema_id", pa.int32()),
    ]
)
PREFIX = "raw:"
"""Of a raw column's name within a read: no field of an event has such a name, since Avro allows no colon."""

_KINDS_KEPT = 4 * BLOCK_RECORDS
"""Half of them are dropped at times: the records of a block, each in a batch of its own, still have theirs."""


class TimeKinds:
    """Whose time the records of a partition have: the writer's (0), or the broker's (1). Changes are rare; notes where."""

    def __init__(self) -> None:
        self._from: list[int] = []
        self._kinds: list[int] = []

    def note(self, offset: int, kind: int) -> None:
        """From this offset on, which is greater than those before, records have this kind of time."""
        if not self._kinds or self._kinds[-1] != kind:
            self._from.append(offset)
            self._kinds.append(kind)
        if len(self._kinds) > _KINDS_KEPT:
            del self._from[: _KINDS_KEPT // 2], self._kinds[: _KINDS_KEPT // 2]

    def of(self, offset: int) -> int:
        return self._kinds[max(0, bisect_right(self._from, offset) - 1)] if self._kinds else 0


def raw_columns(topic: str, kinds: TimeKinds) -> Mapping[str, RecordColumn]:
    """Return how each raw column is made, by its name with `PREFIX`."""
    made: dict[str, RecordColumn] = {
        "key": lambda records, *_: pa.array([one.key for one in records], pa.binary()),
        "value": lambda records, *_: pa.array([one.value for one in records], pa.binary()),
        "topic": lambda records, *_: pa.repeat(pa.scalar(topic), len(records)),
        "partition": lambda records, _, partition: pa.repeat(pa.scalar(partition, pa.int32()), len(records)),
        "offset": lambda records, *_: pa.array([one.offset for one in records], pa.int64()),
        "timestamp": lambda records, *_: pa.array([one.timestamp_ms * 1_000 for one in records], pa.timestamp("us", tz="UTC")),
        "timestampType": lambda records, *_: pa.array([kinds.of(one.offset) for one in records], pa.int32()),
        "headers": lambda records, *_: pa.array([_headers(one) for one in records], RAW_COLUMNS.field("headers").type),
        "schema_id": lambda records, *_: pa.array([_schema_id(one) for one in records], pa.int32()),
    }
    return {PREFIX + name: column for name, column in made.items()}


def _headers(record: Record) -> list[dict[str, Any]] | None:
    """Return null for a record without headers, as Spark does."""
    return [{"key": name, "value": value} for name, value in record.headers] or None


def _schema_id(record: Record) -> int | None:
    try:
        return unframe((record.value or b"")[:SIZE])[0]
    except WireError:
        return None


class RawDecoder:
    """Makes rows of records without opening their values: every record is a row, but those of impossible times."""

    def __init__(self, target: pa.Schema, partition: int, of_the_record: Mapping[str, RecordColumn]) -> None:
        self._target = target
        self._partition = partition
        self._of_the_record = of_the_record
        self.values_decoded = 0

    def decode(self, records: Sequence[Record]) -> Decoded:
        kept = [one for one in records if FIRST_MS <= one.timestamp_ms <= LAST_MS]
        rejected = [
            Rejected(
                record=one,
                code="time_out_of_range",
                reason=f"its timestamp {one.timestamp_ms} ms is outside of the years 1 to 9999",
            )
            for one in records
            if not FIRST_MS <= one.timestamp_ms <= LAST_MS
        ]
        arrays = [self._of_the_record[name](kept, 0, self._partition) for name in self._target.names]
        rows = [pa.RecordBatch.from_arrays(arrays, schema=self._target)] if kept else []
        return Decoded(rows=rows, rejected=rejected, missing_schema_ids=frozenset())
