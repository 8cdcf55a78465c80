"""The reload: the rows of some hours, read again from the offline log, in place of those on the branch `loads`.

    what to read    the loads that have records of these hours, each over its own ranges: only its digest proves its rows
    Spark           reads all of a load's ranges and writes the rows of these hours
    one commit      the new files in place of all files of these hours; how far the topic is loaded does not change

Until the commit nothing has changed. After it the count reports what the new files hold, and readers keep the published rows
until the hour is proven again: then it is published as its next revision. A log that no longer holds all of the rows is refused:
where its beginning has expired, the load's digest of each window decides.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyiceberg.manifest import DataFile

from ...runtime import failpoints
from ...runtime.logs import get_logger
from ..errors import LoadSuperseded, LoadUnproven, ReloadRefused, WarehouseError
from ..lineage.datasets import TableDataset, TopicDataset
from ..lineage.runs import observed_run
from ..source.columns import HOUR_FIELD
from ..source.log_ends import LogEnds, check_still_there, log_ends
from ..source.offset_ranges import OffsetRange
from ..source.task_reports import Total
from ..warehouse.delete_files import Taken
from ..warehouse.file_rows import in_range, join_rows, read_file
from ..warehouse.hours import hour_name
from ..warehouse.load_record import LoadRecord
from ..warehouse.proofs import NOT_PUBLISHED, removed_rows
from ..warehouse.store import StorePath, below, checksum, uri_of
from ..warehouse.topic_table import LOADS, MAIN, Run, TopicTable, reload_prefix
from ..warehouse.warehouse import Warehouse
from .row_writer import RowWriter
from .settings import LoadSettings
from .staging import StagingFolder

log = get_logger(__name__)

HOUR_MS = 3_600_000
ROUNDS = 3
"""How often a reload starts again because another writer replaced the same files first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadOutcome:
    """The result of one reload."""

    topic: str
    hours: tuple[str, ...]
    load_count: int
    """Loads of which rows were read again."""
    row_count: int
    replaced_count: int
    """Rows that stood in the hours before, by the table's metadata."""
    file_count: int
    size_bytes: int
    snapshot_id: int | None


class ReloadJob:
    """One reload of some hours of one topic; `run` may be called once."""

    def __init__(self, settings: LoadSettings, hours: Collection[int], *, restore: Collection[int] = ()) -> None:
        """`restore`: hours of which a person wants back what others removed from `main`."""
        self._settings = settings
        self._hours = frozenset(hours)
        self._restore = frozenset(restore)
        self._warehouse = Warehouse(settings.warehouse)
        self._writer = RowWriter(settings)

    def run(self) -> ReloadOutcome:
        """Load the hours again. Raises NoSuchTable, ReloadRefused, WarehouseError, ClientError: then nothing was changed."""
        topic = self._settings.topic
        read = TopicDataset(bootstrap=self._settings.bootstrap, topic=topic)
        with self._warehouse.locked(f"reload-{topic}"):
            for _ in range(ROUNDS):
                with observed_run("load", topic, inputs=[read]) as observed:
                    outcome = self._reload(self._warehouse.existing_table(topic))
                    if outcome is not None:
                        observed.wrote(partial(_dataset, outcome, self._warehouse))
                        return outcome
        raise LoadSuperseded(topic, ROUNDS)

    def _reload(self, table: TopicTable) -> ReloadOutcome | None:
        topic = self._settings.topic
        through = table.expired_through()
        expired = sorted(hour for hour in self._hours if through is not None and hour <= through)
        if expired and through is not None:
            names = ", ".join(map(hour_name, expired[:5]))
            raise ReloadRefused(topic, f"retention has dropped {names}: all hours through {hour_name(through)} have expired")
        old = table.files(LOADS, self._hours)
        runs = self._runs(table, old)
        self._refuse_erased(table)
        ends = log_ends(self._settings.bootstrap, topic)
        ranges = {run.record.run: _still_there(topic, run.record, ends, self._hours) for run in runs}
        records: list[LoadRecord] = []
        files: list[StorePath] = []
        columns = table.event_columns()
        is_ours_to_discard, is_decided = True, False
        folders: list[StagingFolder] = []
        try:
            for run in runs:
                name = run.record.run
                folders.append(StagingFolder(self._warehouse, topic, prefix=reload_prefix(name)).open())
                log.info("reload_began", topic=topic, run=name, hours=sorted(map(hour_name, self._hours)))
                written = self._writer.write(
                    columns, ranges[name], folders[-1].path, scratch=folders[0].scratch, hours=self._hours
                )
                columns = written.columns
                records.append(_record(topic, run.record, ends, self._hours, written.total, written.files, folders[-1].path))
                files += written.files
            was_read = [one for found in ranges.values() for one in found]
            check_still_there(topic, was_read, log_ends(self._settings.bootstrap, topic))
            failpoints.reach("reload.before_commit", self._settings.home)
            for folder in folders:
                folder.check()
            is_ours_to_discard = False
            if not table.commit_reload(hours=self._hours, records=records, add=files, remove=old, event_columns=columns):
                is_ours_to_discard = True
                for run in runs:
                    run.record.write(table.records_folder)
                return None
            is_decided = True
        finally:
            self._writer.close()
            for folder in folders:
                folder.close(discard=is_ours_to_discard, is_decided=is_decided)
        rows = sum(file.record_count for file in table.files(LOADS, self._hours) if table.path_of(file) in set(files))
        log.info("reload_committed", topic=topic, rows=rows, files=len(files))
        return ReloadOutcome(
            topic=topic,
            hours=tuple(hour_name(hour) for hour in sorted(self._hours)),
            load_count=len(runs),
            row_count=rows,
            replaced_count=sum(file.record_count for file in old),
            file_count=len(files),
            size_bytes=sum(path.stat().st_size for path in files),
            snapshot_id=table.snapshot_id(LOADS),
        )

    def _runs(self, table: TopicTable, old: Sequence[DataFile]) -> list[Run]:
        """Return the loads that decoded records of the hours. Raises ReloadRefused if rows of others are there."""
        runs = table.runs()
        found = [
            run for run in runs if any(_windows(run.record, self._hours, partition) for partition in _partitions(run.record))
        ]
        named = ", ".join(hour_name(hour) for hour in sorted(self._hours))
        if not found:
            raise ReloadRefused(table.topic, f"no load on the branch {LOADS!r} has a record of {named}")
        own = {path for run in runs for path in run.files}
        for path in map(table.path_of, old):
            if path in own:
                continue
            try:
                rows = read_file(path)[1]
            except (FileNotFoundError, WarehouseError) as error:
                log.warning("file_cannot_be_read", topic=table.topic, file=str(path), reason=str(error))
                continue
            known = sum(int(in_range(rows, one).sum()) for run in found for one in run.record.ranges)
            if known != len(rows):
                raise ReloadRefused(
                    table.topic,
                    f"{path}, which another engine wrote, holds {len(rows) - known} rows of loads whose snapshots have expired: "
                    f"the offsets are unknown; move the table's folder away and load the topic again",
                )
        return found

    def _refuse_erased(self, table: TopicTable) -> None:
        """Raise ReloadRefused where others removed published rows: the log may still hold them."""
        history = self._warehouse.proofs(table.topic).read(up_to_publish=table.last_publish, hours=self._hours)
        main, deletes = table.files_by_hour(MAIN, self._hours), table.deletes(MAIN, self._hours)
        for hour in sorted(self._hours - self._restore):
            proofs = history.get(hour, [])
            removed = removed_rows(proofs)
            if proofs and proofs[-1].verdict not in NOT_PUBLISHED:
                names = [file.file_path for file in main.get(hour, ())]
                taken = Taken(deletes.get(hour, ()), table.path_of).facts(names) if names else {}
                standing = [file.record_count for file in main.get(hour, ())] + [one.row_count for one in taken.values()]
                removed += max(0, proofs[-1].row_count - sum(standing))
            if removed:
                raise ReloadRefused(
                    table.topic,
                    f"another program removed {removed} published rows of {hour_name(hour)}, and a reload would bring "
                    "them back: if "
                    f"that is wanted, give `--restore {hour_name(hour)}` too",
                )


def _partitions(record: LoadRecord) -> set[int]:
    return {*record.digests, *record.quarantined}


def _windows(record: LoadRecord, hours: Collection[int], partition: int) -> list[int]:
    """Return the windows of these hours of which the load had records in the partition."""
    starts = {*record.digests.get(partition, ()), *record.quarantined.get(partition, ())}
    return sorted(start for start in starts if start // HOUR_MS in hours)


def _still_there(topic: str, record: LoadRecord, ends: LogEnds, hours: Collection[int]) -> list[OffsetRange]:
    """Return what of the load's ranges the log still holds, in the partitions with records of the hours.

    Raises ReloadRefused where it holds nothing of it, or not its end.
    """
    found = []
    for one in record.ranges:
        if not _windows(record, hours, one.partition):
            continue
        start, end = ends.start.get(one.partition, 0), ends.end.get(one.partition, 0)
        if not start < one.to_offset <= end:
            raise ReloadRefused(
                topic,
                f"partition {one.partition}: the load {record.run} read offsets {one.from_offset} to {one.to_offset} and the "
                f"offline log holds {start} to {end}",
            )
        found.append(replace(one, from_offset=max(one.from_offset, start)))
    return found


def _record(
    topic: str,
    old: LoadRecord,
    ends: LogEnds,
    hours: Collection[int],
    total: Total,
    files: Sequence[StorePath],
    folder: StorePath,
) -> LoadRecord:
    """Return the load's record after the reload.

    Raises LoadUnproven if the files hold other rows than were decoded, ReloadRefused if the log no longer holds all that it held.
    """
    rows = join_rows([read_file(path)[1] for path in files])
    digests = {partition: dict(windows) for partition, windows in old.digests.items()}
    quarantined = {partition: dict(windows) for partition, windows in old.quarantined.items()}
    for partition in sorted({*_partitions(old), *total.digests, *total.quarantined}):
        mine = rows.where(rows.partitions == partition)
        decoded = {start: one for start, one in total.digests.get(partition, {}).items() if start // HOUR_MS in hours}
        if mine.hashes.totals(mine.windows) != decoded:
            raise LoadUnproven(topic, f"the rows of partition {partition} in the files are not those that were read")
        aside = {start: one for start, one in total.quarantined.get(partition, {}).items() if start // HOUR_MS in hours}
        lost = _lost(partition, old, ends, hours, total)
        for start in _windows(old, hours, partition):
            before = digests.get(partition, {}).pop(start, 0)
            quarantined.get(partition, {}).pop(start, None)
            if before == decoded.get(start, 0):
                continue
            if lost:
                raise ReloadRefused(
                    topic, f"the offline log no longer holds what the load {old.run} read of the window {start}: {lost}"
                )
            log.warning("reloaded_rows_differ", topic=topic, run=old.run, partition=partition, window=start)
        digests.setdefault(partition, {}).update(decoded)
        quarantined.setdefault(partition, {}).update(aside)
    of_hours = tuple(f"{HOUR_FIELD}={hour}/" for hour in hours)
    kept = {path: one for path, one in old.files.items() if not any(part in path for part in of_hours)}
    anew = {f"{folder.name}/{below(path, folder)}": checksum(path) for path in files}
    quarantined = {partition: windows for partition, windows in quarantined.items() if windows}
    refused = {start: count for start, count in old.refused.items() if start // HOUR_MS not in hours}
    refused |= {start: count for start, count in total.refused.items() if start // HOUR_MS in hours}
    return replace(old, digests=digests, quarantined=quarantined, refused=refused, files={**kept, **anew})


def _lost(partition: int, old: LoadRecord, ends: LogEnds, hours: Collection[int], total: Total) -> str:
    """Return what of the load's range cannot be read any more; empty if all of it can."""
    begin = min(one.from_offset for one in old.ranges if one.partition == partition)
    if ends.start[partition] > begin:
        return f"partition {partition} was read from {begin} on and begins at {ends.start[partition]} now"
    unreadable = [one for one in total.skipped.get(partition, ()) if one not in old.skipped.get(partition, ())]
    if unreadable:
        return f"partition {partition} has become unreadable from {unreadable[0].from_offset} to {unreadable[0].to_offset}"
    for start, records in total.quarantined.get(partition, {}).items():
        known = old.quarantined.get(partition, {}).get(start, ())
        for one in records:
            if start // HOUR_MS in hours and not any(it.first <= one.first and one.end <= it.end for it in known):
                return f"offsets {one.first} to {one.end - 1} of partition {partition} are no rows any more, but quarantined"
    return ""


def _dataset(outcome: ReloadOutcome, warehouse: Warehouse) -> TableDataset:
    return TableDataset(
        location=uri_of(warehouse.data_folder(outcome.topic).parent),
        branch=LOADS,
        snapshot_id=outcome.snapshot_id,
        row_count=outcome.row_count,
        size_bytes=outcome.size_bytes,
        file_count=outcome.file_count,
    )
