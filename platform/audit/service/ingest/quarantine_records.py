"""What is in a quarantine topic, as rows by origin. See `model.checks.quarantine`, which has their layout."""

from collections.abc import Iterator

from ....wire.batch.batch_header import BatchHeader
from ....wire.batch.crc32c import crc32c
from ....wire.batch.record_batch import iter_records
from ....wire.errors import WireError
from ....wire.quarantine_record import FileOrigin, LogOrigin, NotAQuarantineRecord, Origin, ProcessOrigin, QuarantineRecord
from ...counter import CountedBatch
from ...model.checks.quarantine import OF_A_FILE, OF_AN_APPLICATION, number_of
from ...model.tiers import OFFLINE


class QuarantineCounter:
    """The records of each window since the last `take`: a `WindowCounter` for quarantine topics. Opens every batch."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._windows: dict[int, list[CountedBatch]] = {}

    def add(self, header: BatchHeader, batch: memoryview, *, from_offset: int, to_offset: int) -> None:
        """Take the batch's records whose offset is in [from_offset, to_offset). One that is not a quarantine record counts
        nothing, and neither does a batch that cannot be read: nobody finds there what was put there.
        """
        try:
            for offset, record, crc in _records(batch):
                if from_offset <= offset < to_offset:
                    start = record.window_start_ms - record.window_start_ms % self._window_ms
                    self._windows.setdefault(start, []).append(CountedBatch(offset, 1, crc, *_owner(record.origin)))
        except WireError:
            return

    def take(self) -> dict[int, list[CountedBatch]]:
        """Return window start → its records since the last take."""
        windows, self._windows = self._windows, {}
        return windows


def _records(batch: memoryview) -> Iterator[tuple[int, QuarantineRecord, int]]:
    for one in iter_records(batch):
        if one.value is None:
            continue
        try:
            yield one.offset, QuarantineRecord.from_json(one.value), crc32c(one.value)
        except NotAQuarantineRecord:
            continue


def _owner(origin: Origin) -> tuple[int, int, int]:
    """Return whose record it is, which, and its place there."""
    match origin:
        case LogOrigin():
            end = origin.offset + 1 if origin.to_offset is None else origin.to_offset
            return 2 * origin.partition + (origin.cluster == OFFLINE), max(1, end - origin.offset), origin.offset
        case ProcessOrigin():
            return OF_AN_APPLICATION, number_of(origin.instance), origin.sequence
        case FileOrigin():
            place = origin.line if origin.offset is None else origin.offset
            return OF_A_FILE, number_of(f"{origin.file_id or ''} {origin.file}"), place or 0
