"""Decodes payloads to Arrow: Avro bodies, with their writer's schema, as columns of the table. Rejected records are returned
apart.

One bad record never damages a neighbour: a block that cannot become Arrow is decoded record by record. Knows no topic and no
cluster. Hot: blocks of flat schemas are decoded at once where C is installed (`flat_avro`); for all else `_decoded` runs once a
record, and fastavro does 0.2 M/s a core. A decoder that `projects` decodes only the fields that its target has.
"""

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

import fastavro
import numpy as np
import pyarrow as pa

from ...wire.batch.record_batch import Record
from ...wire.errors import WireError
from ...wire.quarantine_record import SCHEMA_REFUSED
from ...wire.schema_id import SIZE, unframe
from ..errors import DecodersDisagree
from .columns import HOUR_US, SYSTEM_COLUMNS, Column, SchemaRefused, WriterColumns, covers, settled, writer_columns
from .digest import is_same
from .flat_avro import FlatAvro
from .plain_avro import NotPlain, PlainAvro
from .projection import pruned, within

SAMPLED = 8
"""How many records of a block are decoded twice by a checked decoder: a millisecond of a block of 8,192 records of 12 fields."""
CHECKED_EVERY = 8
"""It samples the first block of each schema in a split, and every one of so many behind it. Of the others it takes one record of
each hour that is new to it: a file holds one hour, so each file has a record that was decoded twice.
"""
HOURS_KEPT = 10_000
"""How many hours are known as sampled. In a split with more, some are sampled again."""
SCHEMAS_KEPT = 1_000
"""How many parsed writers' schemas are kept. A topic with more schemas has some of them parsed again."""
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: what Iceberg's readers in Python can name. A record of another time is not a row, but quarantined."""

# A column of many records at once, without a step of Python's for each.
_OFFSET, _TIMESTAMP_MS, _VALUE = (itemgetter(Record._fields.index(name)) for name in ("offset", "timestamp_ms", "value"))
_ENVELOPE = itemgetter(slice(0, SIZE))

SchemaOf = Callable[[int], str | None]
"""Returns the schema's JSON for an id; None for an id unknown to the registry. Raises if the registry does not answer."""


RecordColumn = Callable[[Sequence[Record], int, int], pa.Array]
"""Makes a column of records, their schema's id and their partition."""

OF_THE_RECORD: Mapping[str, RecordColumn] = {
    "_topic_partition": lambda records, _, partition: pa.repeat(pa.scalar(partition, pa.int32()), len(records)),
    "_offset": lambda records, *_: pa.array(np.fromiter(map(_OFFSET, records), np.int64, len(records))),
    "_timestamp": lambda records, *_: pa.array(_timestamps_us(records)).cast(SYSTEM_COLUMNS.field(2).type),
    "_schema_id": lambda records, schema_id, _: pa.repeat(pa.scalar(schema_id, pa.int32()), len(records)),
}
"""The system columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A record that is not a row."""

    record: Record
    code: str
    """`not_framed`, `unknown_schema_id`, `schema_refused`, `schema_mismatch`, `time_out_of_range`."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The result of decoding a block of records."""

    rows: list[pa.RecordBatch]
    rejected: list[Rejected]
    missing_schema_ids: frozenset[int]
    """Schemas with columns that the table does not have yet; their records are neither rows nor rejected."""
    left_out: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Schema id → names of its fields that the target has no place for. Only of a decoder that `projects`."""


class Decoder(Protocol):
    """What makes rows of records."""

    def decode(self, records: Sequence[Record]) -> Decoded: ...


class _Unfit(Exception):
    """One record does not fit; the text says why."""


@dataclass(frozen=True, slots=True)
class _Writer:
    """A writer's schema for this table: `columns` to decode by, or the reason why that is impossible."""

    columns: WriterColumns | None = None
    kept: Sequence[Column] = ()
    """Those of the columns that the target has."""
    left_out: Sequence[str] = ()
    parsed: Any = None
    reader: Any = None
    """Fewer fields than `parsed` has; None: all of them."""
    flat: FlatAvro | None = None
    plain: PlainAvro | None = None
    """A second decoder, for samples."""
    code: str = ""
    reason: str = ""
    is_missing: bool = False


class BlockDecoder:
    """Decodes blocks of one topic's records into batches of the schema `target` (event columns, then those of the record)."""

    def __init__(
        self,
        target: pa.Schema,
        partition: int,
        schema_of: SchemaOf,
        *,
        of_the_record: Mapping[str, RecordColumn] = OF_THE_RECORD,
        projects: bool = False,
        is_checked: bool = False,
    ) -> None:
        """`projects`: fields that the target lacks are skipped and named in `left_out`, instead of missing. `is_checked`: a
        sample of the blocks is decoded a second time, by another decoder, and compared.
        """
        self._target = target
        self._of_the_record = of_the_record
        self._events = pa.schema([field for field in target if field.name not in of_the_record])
        self._partition = partition
        self._schema_of = schema_of
        self._projects = projects
        self._is_checked = is_checked
        self._blocks: Counter[int] = Counter()
        self._hours: set[int] = set()
        self._writers: dict[int, _Writer] = {}
        self.values_decoded = 0
        """How many values became Arrow: rows times their schema's fields that the target has."""

    def decode(self, records: Sequence[Record]) -> Decoded:
        """Return the rows and rejects of `records`. Each record is one or the other, unless its schema is in
        `missing_schema_ids`. Raises DecodersDisagree.
        """
        rejected: list[Rejected] = []
        rows: list[pa.RecordBatch] = []
        missing = set()
        left_out: dict[int, Sequence[str]] = {}
        for envelope, framed in _by_envelope(records).items():
            try:
                schema_id, _ = unframe(envelope)
            except WireError as error:
                rejected += [Rejected(record=record, code="not_framed", reason=str(error)) for record in framed]
                continue
            writer = self._writer(schema_id)
            if writer.is_missing:
                missing.add(schema_id)
            elif writer.columns is None:
                rejected += [Rejected(record=record, code=writer.code, reason=writer.reason) for record in framed]
            else:
                found = self._rows(schema_id, writer, framed, rejected)
                for batch in found if self._is_checked else ():
                    self._check(schema_id, writer, framed, batch, self._sample(schema_id, batch))
                rows += found
                if writer.left_out:
                    left_out[schema_id] = writer.left_out
        return Decoded(rows=rows, rejected=rejected, missing_schema_ids=frozenset(missing), left_out=left_out)

    def _writer(self, schema_id: int) -> _Writer:
        found = self._writers.get(schema_id)
        if found is None:
            if len(self._writers) >= SCHEMAS_KEPT:
                self._writers.clear()
            found = self._writers[schema_id] = self._resolve(schema_id)
        return found

    def _resolve(self, schema_id: int) -> _Writer:
        text = self._schema_of(schema_id)
        if text is None:
            return _Writer(code="unknown_schema_id", reason=f"the registry has no schema with id {schema_id}")
        try:
            return self._usable(writer_columns(text))
        except SchemaRefused as error:
            return _Writer(code=SCHEMA_REFUSED, reason=f"schema id {schema_id}: {error}")
        except Exception as error:  # any fault of one schema must not stop the records of the others
            return _Writer(code="schema_mismatch", reason=f"schema id {schema_id} is not a usable Avro schema: {error}")

    def _usable(self, columns: WriterColumns) -> _Writer:
        table, fields, left_out, reader = self._events, columns.fields(), list[str](), None
        if self._projects:
            table = pa.schema([pa.field(one.name, settled(one.type)) for one in table])
            fields, left_out = within(table, fields)
        if not covers(table, fields):
            return _Writer(is_missing=True)
        names = {one.name for one in fields}
        if columns.is_record and len(names) < len(columns.columns):
            reader = pruned(columns.avro, names)
        return _Writer(
            columns=columns,
            kept=[one for one in columns.columns if one.name in names],
            left_out=left_out,
            parsed=fastavro.parse_schema(columns.avro),
            reader=reader,
            flat=FlatAvro.of(columns.avro, names),
            plain=PlainAvro(columns.avro) if self._is_checked else None,
        )

    def _rows(self, schema_id: int, writer: _Writer, framed: Sequence[Record], rejected: list[Rejected]) -> list[pa.RecordBatch]:
        assert writer.columns is not None
        records = _of_our_era(framed, rejected)
        if writer.flat is not None and records:
            arrays = writer.flat.decode([*map(_VALUE, records)])
            if arrays is not None:
                with suppress(pa.ArrowException):
                    return [self._batch(schema_id, writer, records, arrays)]
        return self._one_by_one(schema_id, writer, records, rejected)

    def _sample(self, schema_id: int, batch: pa.RecordBatch) -> list[int]:
        """Return the rows of a block that are decoded twice."""
        self._blocks[schema_id] += 1
        is_turn = self._blocks[schema_id] % CHECKED_EVERY == 1
        chosen = {*np.linspace(0, batch.num_rows - 1, SAMPLED).astype(np.int64).tolist()} if is_turn else set()
        hours = np.asarray(batch.column("_timestamp").cast(pa.int64())) // HOUR_US
        begins = np.concatenate(([0], np.flatnonzero(np.diff(hours)) + 1))  # mostly the block is of one hour
        if len(self._hours) >= HOURS_KEPT:
            self._hours.clear()
        for hour, at in zip(hours[begins].tolist(), begins.tolist(), strict=True):
            if hour not in self._hours:
                self._hours.add(hour)
                chosen.add(at)
        return sorted(chosen)

    def _check(
        self, schema_id: int, writer: _Writer, framed: Sequence[Record], batch: pa.RecordBatch, sample: Sequence[int]
    ) -> None:
        """Decode these rows of the batch again, with the decoder written from the specification, and compare all their values."""
        assert writer.plain is not None
        offsets = np.asarray(batch.column("_offset"))
        wanted = {int(offsets[at]): at for at in sample}
        chosen: list[tuple[Record, Any]] = []
        for record in framed if len(framed) != len(offsets) else [framed[at] for at in wanted.values()]:
            if record.offset in wanted:
                with suppress(NotPlain):
                    chosen.append((record, writer.plain.decode(record.value or b"", SIZE)))
        if not chosen:
            return
        rows = batch.take(pa.array([wanted[record.offset] for record, _ in chosen], pa.int64()))
        before = self.values_decoded
        if self._differing(schema_id, writer, chosen, rows):
            for at, one in enumerate(chosen):
                if names := self._differing(schema_id, writer, [one], rows.slice(at, 1)):
                    raise DecodersDisagree(schema_id, self._partition, one[0].offset, names)
        self.values_decoded = before

    def _differing(
        self, schema_id: int, writer: _Writer, chosen: Sequence[tuple[Record, Any]], rows: pa.RecordBatch
    ) -> list[str]:
        """Return the columns in which the rows are not these events."""
        try:
            again = self._batch(schema_id, writer, [one[0] for one in chosen], _arrays(writer, [one[1] for one in chosen]))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            return [f"(it is not a row: {error})"]
        columns = zip(rows.schema.names, rows.columns, again.columns, strict=True)
        return [name for name, mine, other in columns if not is_same(name, mine, other)]

    def _one_by_one(
        self, schema_id: int, writer: _Writer, records: Sequence[Record], rejected: list[Rejected]
    ) -> list[pa.RecordBatch]:
        kept: list[Record] = []
        events: list[Any] = []
        for record in records:
            try:
                event = _decoded(record.value or b"", writer)
            except _Unfit as error:
                rejected.append(Rejected(record=record, code="schema_mismatch", reason=f"schema id {schema_id}: {error}"))
                continue
            kept.append(record)
            events.append(event)
        if not kept:
            return []
        try:
            return [self._batch(schema_id, writer, kept, _arrays(writer, events))]
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            pass
        # Some value fits its Avro type but not its column (a timestamp beyond the year 294,000, say): find its record.
        rows = []
        for record, event in zip(kept, events, strict=True):
            try:
                rows.append(self._batch(schema_id, writer, [record], _arrays(writer, [event])))
            except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
                rejected.append(Rejected(record=record, code="schema_mismatch", reason=f"schema id {schema_id}: {error}"))
        return [pa.Table.from_batches(rows).combine_chunks().to_batches()[0]] if rows else []

    def _batch(
        self, schema_id: int, writer: _Writer, records: Sequence[Record], decoded: Mapping[str, pa.Array]
    ) -> pa.RecordBatch:
        """Return records and their decoded fields as a batch of the target's schema."""
        written = {column.name: column for column in writer.kept}
        count = len(records)
        arrays = []
        for one in self._target:
            of_the_record = self._of_the_record.get(one.name)
            if of_the_record is not None:
                array = of_the_record(records, schema_id, self._partition)
            elif one.name not in decoded:
                array = pa.nulls(count, one.type)
            else:
                array = _cast(decoded[one.name], written[one.name].decoded)
            arrays.append(_cast(array, one.type))
        self.values_decoded += count * len(written)
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def _timestamps_us(records: Sequence[Record]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.fromiter(map(_TIMESTAMP_MS, records), np.int64, len(records)) * 1_000


def _by_envelope(records: Sequence[Record]) -> Mapping[bytes, Sequence[Record]]:
    """Return the records by their envelope, which is so parsed once for each distinct one; mostly there is one."""
    values = [*map(_VALUE, records)]
    if None not in values:
        envelopes = set(map(_ENVELOPE, values))
        if len(envelopes) == 1:
            return {envelopes.pop(): records}
    groups: dict[bytes, list[Record]] = {}
    for record in records:
        groups.setdefault((record.value or b"")[:SIZE], []).append(record)
    return groups


def _of_our_era(framed: Sequence[Record], rejected: list[Rejected]) -> Sequence[Record]:
    """Return the records whose time Iceberg's readers can name; the others are rejected."""
    times = [*map(_TIMESTAMP_MS, framed)]
    if min(times) >= FIRST_MS and max(times) <= LAST_MS:
        return framed
    records: list[Record] = []
    for record in framed:
        if FIRST_MS <= record.timestamp_ms <= LAST_MS:
            records.append(record)
        else:
            reason = f"its timestamp {record.timestamp_ms} ms is outside of the years 1 to 9999"
            rejected.append(Rejected(record=record, code="time_out_of_range", reason=reason))
    return records


def _arrays(writer: _Writer, events: Sequence[Any]) -> dict[str, pa.Array]:
    assert writer.columns is not None
    found = {}
    for column in writer.kept:
        values = [event[column.name] for event in events] if writer.columns.is_record else list(events)
        if column.convert is not None:
            values = [column.convert(value) for value in values]
        found[column.name] = pa.array(values, column.decoded)
    return found


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if array.type == pa.int64() and pa.types.is_date32(kind):
        array = array.cast(pa.int32())  # days, as the writer has them
    return array.cast(kind)


def _decoded(payload: bytes, writer: _Writer) -> Any:
    stream = io.BytesIO(payload)
    stream.seek(SIZE)
    try:
        event = fastavro.schemaless_reader(stream, writer.parsed, writer.reader)
    except Exception as error:  # fastavro raises many types of errors for garbage
        raise _Unfit(f"the body is no such event: {type(error).__name__} {error}".rstrip()) from error
    left = len(payload) - stream.tell()
    if left:
        raise _Unfit(f"{left} bytes are left over after the event")
    return event
