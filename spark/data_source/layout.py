"""Which columns a read's rows have, and how a decoder's batch becomes them. Pure."""

from collections.abc import Collection, Iterable

import pyarrow as pa

from ..errors import BadOption
from ..source.columns import SYSTEM_COLUMNS
from .options import BOTH, EVENTS, LISTED, RAW, Options
from .raw_columns import PREFIX, RAW_COLUMNS

EVENT = "event"
"""The struct of the decoded fields, beside the raw columns."""


def columns_of(options: Options, events: pa.Schema) -> tuple[pa.Schema, frozenset[str]]:
    """Return the columns of a read of events with these columns, and which of them are raw ones. Raises BadOption."""
    if options.form == RAW:
        return RAW_COLUMNS, frozenset(RAW_COLUMNS.names)
    if options.form == EVENTS:
        return pa.schema([*events, *SYSTEM_COLUMNS]), frozenset()
    if options.form == BOTH:
        if not events.names:
            raise BadOption("columns", f"both: topic {options.topic!r} has no schema yet, so there is nothing to decode; use raw")
        return pa.schema([*RAW_COLUMNS, pa.field(EVENT, pa.struct(list(events)))]), frozenset(RAW_COLUMNS.names)
    places = {one.name: one for one in (*RAW_COLUMNS, *SYSTEM_COLUMNS, *events)}
    unknown = [name for name in options.listed if name not in places]
    if unknown:
        raise BadOption("columns", f"there is no column {', '.join(unknown)}; there are {', '.join(places)}")
    of_the_event = {*SYSTEM_COLUMNS.names, *events.names}
    return pa.schema([places[name] for name in options.listed]), frozenset(set(options.listed) - of_the_event)


class Layout:
    """The rows of one read, and of the decoder below it: there raw columns have a `PREFIX`, and nothing is inside a struct."""

    def __init__(self, options: Options, target: pa.Schema, raw_names: Collection[str]) -> None:
        """`target`: the columns that Spark wants; `raw_names`: those of `columns_of`, if they are listed. Raises BadOption."""
        self.target = target
        self._raw = set(raw_names) if options.form == LISTED else set() if options.form == EVENTS else set(RAW_COLUMNS.names)
        self.is_raw = options.form == RAW
        self._has_struct = options.form == BOTH and EVENT in target.names
        wrong = [name for name in target.names if self.is_raw and name not in self._raw]
        if wrong:
            raise BadOption("columns", f"raw has no column {', '.join(wrong)}; it has {', '.join(RAW_COLUMNS.names)}")
        self.decoded = pa.schema([inner for one in target for inner in self._inner(one)])
        self.of_the_record = [name for name in target.names if name in self._raw or name in SYSTEM_COLUMNS.names]
        """The names that a filter may mean a record's partition, offset or time by."""

    def _inner(self, one: pa.Field) -> Iterable[pa.Field]:
        if one.name in self._raw:
            return [pa.field(PREFIX + one.name, one.type)]
        if one.name == EVENT and self._has_struct:
            return list(one.type.fields)
        return [pa.field(one.name, one.type)]

    def arranged(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        """Return a decoder's batch as a batch of the target."""
        arrays, at = [], 0
        for one in self.target:
            if one.name == EVENT and self._has_struct:
                inner = decoded.columns[at : at + one.type.num_fields]
                arrays.append(pa.StructArray.from_arrays(inner, fields=list(one.type.fields)))
                at += len(inner)
            else:
                arrays.append(decoded.column(at))
                at += 1
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)
