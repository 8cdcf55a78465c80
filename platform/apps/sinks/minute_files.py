"""A sink of files, one for each minute (of event time) and partition: `<topic>/<date>/<HH-MM>/<topic>-<partition>-<offset>…`.

A file gets its name when it is whole and on the disk; nobody else writes there. Each record is in one file, also after kills
(`file_ledger`), as long as the folder `.headrace` is kept. A minute has several files where its records came at several times.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from ...client.fetch.fetched import TopicPartition
from ...reader.processor import ProcessorAway, RefusedRecord
from ...reader.record import EventRecord
from .file_formats import AvroFile, Format, JsonLinesFile, RecordFile, suffix_of
from .file_ledger import FileLedger
from .sink import SinkRefused

MINUTE_MS = 60_000
MOST_OPEN_FILES = 128
"""With more at once, all are closed: times that jump to and fro give many small files, never many open ones."""


@dataclass(slots=True)
class _Open:
    path: Path
    final: Path
    file: BinaryIO
    records: RecordFile


@dataclass(slots=True)
class _Partition:
    files: dict[tuple[int, int], _Open] = field(default_factory=dict)
    """(minute, schema id; 0 for lines) → its file."""
    renames: list[tuple[Path, Path]] = field(default_factory=list)
    """Closed and on the disk, not renamed yet."""


class MinuteFiles:
    """A `Processor`."""

    def __init__(
        self,
        folder: Path,
        group: str,
        form: Format,
        schema: Callable[[int], str],
        *,
        most_open_files: int = MOST_OPEN_FILES,
    ) -> None:
        """`schema` returns a schema's text by its id. Raises SinkRefused."""
        self._folder = folder
        self._form: Format = form
        self._schema = schema
        self._most_open_files = most_open_files
        self._ledger = FileLedger(folder, group)
        self._ledger.open()
        self._partitions: dict[TopicPartition, _Partition] = {}

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        later = {}
        for name, start in starts.items():
            self.end([name])
            try:
                found = self._ledger.recover(name)
            except OSError as error:
                raise SinkRefused(
                    f"{self._folder}: what an earlier sink left of {name.topic}-{name.partition}: {error}"
                ) from error
            if found is not None and found > start:
                later[name] = found
        return later

    def take(self, record: EventRecord) -> None:
        minute = record.message.timestamp_ms // MINUTE_MS
        files = self._partitions.setdefault(record.of, _Partition()).files
        key = (minute, record.schema_id if self._form == "avro" else 0)
        try:
            one = files.get(key)
            if one is None:
                one = files[key] = self._opened(record, minute)
            one.records.write(record)
        except OSError as error:
            raise self._unwritten(error) from error

    @property
    def is_full(self) -> bool:
        return sum(len(one.files) for one in self._partitions.values()) >= self._most_open_files

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        for name, one in self._partitions.items():
            if name not in positions or not (one.files or one.renames):
                continue
            for key in list(one.files):
                open_one = one.files[key]
                try:
                    open_one.records.finish()
                    os.fsync(open_one.file.fileno())
                    open_one.file.close()
                except OSError as error:
                    raise self._unwritten(error) from error
                one.renames.append((open_one.path, open_one.final))
                del one.files[key]
            try:
                self._ledger.finish(name, positions[name], one.renames)
                one.renames.clear()
            except OSError as error:
                raise ProcessorAway(f"{self._folder}: {error}") from error
        return []

    def end(self, partitions: Collection[TopicPartition]) -> None:
        for name in partitions:
            one = self._partitions.pop(name, None)
            for open_one in () if one is None else one.files.values():
                open_one.file.close()
                open_one.path.unlink(missing_ok=True)

    def close(self) -> None:
        self.end(list(self._partitions))

    def _unwritten(self, error: OSError) -> SinkRefused:
        """Nobody knows how much of the file is written: the next process begins it again."""
        return SinkRefused(f"{self._folder} cannot be written ({error}): restart the sink: it continues after what is finished")

    def _opened(self, record: EventRecord, minute: int) -> _Open:
        one = record.message
        at = datetime.fromtimestamp(minute * 60, UTC)
        name = f"{one.topic}-{one.partition}-{one.offset:020d}{suffix_of(self._form, record.schema_id)}"
        final = self._folder / one.topic / at.strftime("%Y-%m-%d") / at.strftime("%H-%M") / name
        schema = json.loads(self._schema(record.schema_id)) if self._form == "avro" else {}
        path = self._ledger.temporary(record.of, f"{minute}-{name}")
        file = path.open("wb")
        return _Open(path, final, file, AvroFile(file, schema) if self._form == "avro" else JsonLinesFile(file))
