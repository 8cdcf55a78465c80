"""Retention: hours older than the topic's age are dropped from both branches, and the table says so.

    records     each load's record gets the offsets that its rows had in these hours, ahead of the commit
    proofs      a revision EXPIRED for each hour
    one commit  the hours' files off `loads` and `main`, and how far retention has come, on `loads`

Nothing is reported to the audit: the rows had arrived, and were removed on purpose. A count that reads a load again reports
dropped rows as they had been. A rollback of `loads` over the commit brings rows and knowledge back; the next retention drops
them again. Files are deleted later, once no snapshot names them (`expire_job`). Off unless an age is set; decision 38.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pyiceberg.manifest import DataFile

from ...audit.model.messages import Stretch
from ...runtime import failpoints
from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_logger
from ..errors import WarehouseError
from ..warehouse.commits.maintenance_commits import commit_retention
from ..warehouse.file_rows import Numbers, Rows, in_range, read_file, stretches
from ..warehouse.hours import BEFORE_1970, hour_name
from ..warehouse.leases import Lease
from ..warehouse.load_record import LoadRecord, read_records
from ..warehouse.proofs import EXPIRED, Proof
from ..warehouse.topic_table import LOADS, MAIN, TopicTable
from ..warehouse.warehouse import Warehouse
from .bookkeeping import forget_files, loads_of_files
from .settings import retention_hours

log = get_logger(__name__)

HOUR_MS = 3_600_000
MOST_HOURS = 31 * 24
"""The most hours with rows that one run drops; the next continues."""
BATCH_BYTES = 256 << 20
BATCH_HOURS = 48
"""What one commit drops: the offsets of its rows are in memory, eight bytes each."""
ATTEMPTS = 3


@dataclass(slots=True)
class RetentionOutcome:
    """What a retention dropped, or would drop."""

    topic: str
    keep_hours: int = 0
    """0: the topic's rows are kept permanently."""
    hours: dict[str, int] = field(default_factory=dict)
    """Name of an hour → its rows."""
    file_count: int = 0
    expired_through: str | None = None
    is_applied: bool = False
    more: int = 0
    """Hours that the next run takes on."""

    @property
    def row_count(self) -> int:
        return sum(self.hours.values())


class RetentionJob:
    """One retention of one topic; `run` may be called once."""

    def __init__(
        self,
        warehouse: Warehouse,
        topic: str,
        *,
        apply: bool,
        keep_hours: int | None = None,
        most_hours: int = MOST_HOURS,
        clock: Clock | None = None,
    ) -> None:
        """Without `apply` nothing is changed. `keep_hours`: None: as the settings say."""
        self._warehouse = warehouse
        self._topic = topic
        self._apply = apply
        self._keep_hours = keep_hours
        self._most_hours = most_hours
        self._clock = clock or SystemClock()

    def run(self) -> RetentionOutcome:
        """Raises WarehouseError, CatalogUnreachable, StoreUnreachable; what was dropped before stays so."""
        keep = self._keep_hours
        keep = retention_hours(self._warehouse.folder, self._topic) if keep is None else keep
        outcome = RetentionOutcome(topic=self._topic, keep_hours=keep, is_applied=self._apply)
        table = self._warehouse.table(self._topic)
        if table is None or keep <= 0:
            return outcome
        hours = self._hours(table, keep)
        outcome.more = max(0, len(hours) - self._most_hours)
        for batch in _batches({hour: hours[hour] for hour in sorted(hours)[: self._most_hours]}):
            outcome.hours |= {hour_name(hour): _rows(hours[hour]) for hour in batch}
            outcome.file_count += sum(len(hours[hour]) for hour in batch)
            if self._apply:
                self._drop(batch[-1], keep)
        through = self._warehouse.existing_table(self._topic).expired_through()
        outcome.expired_through = None if through is None else hour_name(through)
        return outcome

    def _hours(self, table: TopicTable, keep: int) -> dict[int, list[DataFile]]:
        """Return the hours that are past their age and have files, and those files, each once."""
        last = (self._clock.now_ms() - keep * HOUR_MS) // HOUR_MS - 1
        found: dict[int, dict[str, DataFile]] = {}
        for branch in (LOADS, MAIN):
            for hour, files in table.files_by_hour(branch, range(BEFORE_1970, last + 1)).items():
                found.setdefault(hour, {}).update({file.file_path: file for file in files})
        return {hour: list(files.values()) for hour, files in found.items()}

    def _drop(self, through: int, keep: int) -> None:
        topic = self._topic
        with self._warehouse.locked(f"publish-{topic}") as lease, self._warehouse.locked(f"count-{topic}"):
            for _ in range(ATTEMPTS):
                if self._commit(self._warehouse.existing_table(topic), through, keep, lease):
                    return
        raise WarehouseError(f"retention of {topic!r}: other commits came first, {ATTEMPTS} times; nothing is lost, run it again")

    def _commit(self, table: TopicTable, through: int, keep: int, lease: Lease) -> bool:
        files = {branch: table.files_by_hour(branch, range(BEFORE_1970, through + 1)) for branch in (LOADS, MAIN)}
        remove = {branch: [file for some in hours.values() for file in some] for branch, hours in files.items()}
        for record in _records(table, remove[LOADS]):
            record.write(table.records_folder)
        number = table.last_publish + 1
        revisions = self._revisions(table, files[LOADS], files[MAIN], through=through, keep=keep, number=number)
        proofs = self._warehouse.proofs(self._topic)
        lease.check()
        proofs.discard_leftovers(after_publish=table.last_publish)
        if revisions:
            proofs.append(revisions)
        failpoints.reach("retention.before_commit", self._warehouse.home)
        lease.check()
        if not commit_retention(table, through=through, number=number, remove=remove):
            proofs.discard_leftovers(after_publish=table.last_publish)
            return False
        failpoints.reach("retention.after_commit", self._warehouse.home)
        forget_files(table.records_folder, [table.path_of(file) for file in remove[LOADS]])
        log.info("hours_expired", topic=self._topic, through=hour_name(through), files=len(remove[LOADS]))
        return True

    def _revisions(
        self,
        table: TopicTable,
        loads: Mapping[int, Sequence[DataFile]],
        main: Mapping[int, Sequence[DataFile]],
        *,
        through: int,
        keep: int,
        number: int,
    ) -> list[Proof]:
        history = self._warehouse.proofs(self._topic).marks(up_to_publish=table.last_publish)
        published = {hour for hour, some in history.items() if hour <= through and some[-1].verdict != EXPIRED}
        found = []
        for hour in sorted({*loads, *main, *published}):
            before = history[hour][-1] if hour in history else None
            rows = sum(file.record_count for file in main.get(hour, ())), sum(file.record_count for file in loads.get(hour, ()))
            found.append(
                Proof(
                    topic=self._topic,
                    hour=hour,
                    revision=1 if before is None else before.revision + 1,
                    previous=None if before is None else before.revision,
                    publish=number,
                    verdict=EXPIRED,
                    reason=f"expired by retention after {keep} hours, with {rows[0]} published rows of {rows[1]}",
                    row_count=0,
                    digest=f"{0:032x}",
                    files=(),
                    loads_snapshot_id=table.snapshot_id(LOADS),
                    main_snapshot_id=table.snapshot_id(MAIN),
                    at_ms=self._clock.now_ms(),
                )
            )
        return found


def _batches(hours: Mapping[int, Sequence[DataFile]]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for hour, files in hours.items():
        mine = sum(file.file_size_in_bytes for file in files)
        if batch and (len(batch) >= BATCH_HOURS or size + mine > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(hour)
        size += mine
    if batch:
        yield batch


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.record_count for file in files)


def _records(table: TopicTable, files: Sequence[DataFile]) -> list[LoadRecord]:
    """Return the records of the loads whose rows are in the files, with the offsets of these rows."""
    offsets: dict[str, dict[tuple[int, int], list[Numbers]]] = {}
    known: dict[str, LoadRecord] = {}
    for file in files:
        path = table.path_of(file)
        try:
            rows = read_file(path)[1]
            runs = sorted(loads_of_files(table, [file]))
        except (FileNotFoundError, WarehouseError) as error:
            log.warning("dropped_file_cannot_be_read", topic=table.topic, file=str(path), reason=str(error))
            continue
        known |= {one.run: one for one in read_records(table.records_folder, [run for run in runs if run not in known])}
        for run in runs:
            if run in known:
                _add(offsets.setdefault(run, {}), _of_load(rows, known[run]))
    return [_with_expired(known[run], mine) for run, mine in offsets.items()]


def _of_load(rows: Rows, record: LoadRecord) -> Rows:
    mask = np.zeros(len(rows), np.bool_)
    for one in record.ranges:
        mask |= in_range(rows, one)
    return rows.where(mask)


def _add(found: dict[tuple[int, int], list[Numbers]], rows: Rows) -> None:
    for partition in map(int, np.unique(rows.partitions)):
        mine = rows.where(rows.partitions == partition)
        for start in map(int, np.unique(mine.windows)):
            found.setdefault((partition, start), []).append(mine.offsets[mine.windows == start])


def _with_expired(record: LoadRecord, offsets: Mapping[tuple[int, int], Sequence[Numbers]]) -> LoadRecord:
    expired: dict[int, dict[int, Sequence[Stretch]]] = {partition: dict(one) for partition, one in record.expired.items()}
    for (partition, start), some in offsets.items():
        expired.setdefault(partition, {})[start] = stretches(np.concatenate(list(some)))
    return replace(record, expired=expired)
