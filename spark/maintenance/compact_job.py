"""The compaction: small files of closed hours into files of the target size, the same rows on both branches in one commit.

    merge       old files -> a folder of its own, leased like a load's; what is read back must be what was read
    record      which loads' rows are in the new files, and proofs that link to those before, both written ahead of the commit
    one commit  new files in place of old ones on `loads` and on `main`; old snapshots continue naming the old files
    the count   knows the new files: nothing is reported again. After a kill it reads them, and reports the same

Killed anywhere, the table is as before or as after. A load beside it never waits; a publish, a count and a retention of the same
topic wait for the commit. Two compactions of a topic come one after the other. Decision 38.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.manifest import DataFile

from ...runtime import failpoints
from ...runtime.clock import Clock, SystemClock
from ...runtime.logs import get_logger
from ..errors import CompactionUnproven, WarehouseError
from ..load.staging import StagingFolder, sweep
from ..source.digest import MODULUS
from ..warehouse.commits.maintenance_commits import Replacement, commit_compaction
from ..warehouse.commits.manifest_bins import merge_manifests
from ..warehouse.counted import Facts, read_counted
from ..warehouse.hours import hour_name
from ..warehouse.leases import Lease
from ..warehouse.load_record import PREFIX, CompactionRecord
from ..warehouse.proofs import COMPACTED, Proof, ProvenFile
from ..warehouse.store import StorePath, below, uri_of
from ..warehouse.topic_table import LOADS, MAIN, TopicTable
from ..warehouse.warehouse import Warehouse
from .bookkeeping import carry_over, loads_of_files
from .file_choice import Choice, choose, is_closed
from .merged_files import Merged, merge, read_sums
from .settings import CompactSettings, target_bytes_of

log = get_logger(__name__)

BATCH_BYTES = 1 << 30
BATCH_HOURS = 48
"""What one commit takes on: a kill loses no more work."""


@dataclass(slots=True)
class CompactOutcome:
    """What a compaction did."""

    topic: str
    hours: list[str] = field(default_factory=list)
    files_before: int = 0
    files_after: int = 0
    row_count: int = 0
    left: dict[str, str] = field(default_factory=dict)
    """Hours that stay as they are, and why."""
    manifests_merged: int = 0
    more: int = 0
    """Hours that the next run takes on."""


@dataclass(frozen=True, slots=True)
class _Hour:
    choice: Choice
    merged: Merged


Same = Callable[[TopicTable, Sequence[_Hour]], list[_Hour]]


class CompactJob:
    """One compaction of one topic; `run` may be called once."""

    def __init__(
        self, warehouse: Warehouse, topic: str, settings: CompactSettings | None = None, *, clock: Clock | None = None
    ) -> None:
        self._warehouse = warehouse
        self._topic = topic
        self._settings = settings or CompactSettings()
        self._clock = clock or SystemClock()
        self._outcome = CompactOutcome(topic=topic)

    def run(self) -> CompactOutcome:
        """Compact what is worth it. Raises WarehouseError, CatalogUnreachable, StoreUnreachable; what is committed stays."""
        if self._warehouse.table(self._topic) is None:
            return self._outcome
        with self._warehouse.locked(f"compact-{self._topic}"):
            sweep(self._warehouse, self._topic)
            for batch in self._batches(self._choices()):
                self._compact(batch)
            table = self._warehouse.existing_table(self._topic)
            for branch in (LOADS, MAIN):
                self._outcome.manifests_merged += merge_manifests(table, branch, at_least=self._settings.most_manifests)
        return self._outcome

    def _choices(self) -> list[Choice]:
        table = self._warehouse.existing_table(self._topic)
        loads, main = table.files_by_hour(LOADS), table.files_by_hour(MAIN)
        # An hour whose one file is on both branches is never merged: its proof is not checked.
        # Merged files would be younger than a delete file of others, which would take nothing of them: the rows would be back.
        taken = table.deletes(MAIN)
        several = [
            hour for hour in {*loads} - {*taken} if len(loads[hour]) > 1 or _paths(loads[hour]) != _paths(main.get(hour, ()))
        ]
        history = self._proofs(table, several)
        now_ms, asked = self._clock.now_ms(), self._settings
        found = []
        for hour in sorted(several):
            wanted = hour in asked.hours if asked.hours else is_closed(hour, now_ms=now_ms, after_ms=asked.closed_after_ms)
            choice = self._choose(table, hour, loads, main, history) if wanted else None
            if choice is not None:
                found.append(choice)
        self._outcome.more = max(0, len(found) - asked.most_hours)
        return found[: asked.most_hours]

    def _choose(
        self,
        table: TopicTable,
        hour: int,
        loads: Mapping[int, Sequence[DataFile]],
        main: Mapping[int, Sequence[DataFile]],
        history: Mapping[int, Sequence[Proof]],
    ) -> Choice | None:
        target = self._settings.target_bytes or target_bytes_of(table)
        of_hour = (loads.get(hour, ()), main.get(hour, ()), history.get(hour, ()))
        return choose(hour, *of_hour, target_bytes=target, min_files=self._settings.min_files)

    def _proofs(self, table: TopicTable, hours: Collection[int]) -> dict[int, list[Proof]]:
        return self._warehouse.proofs(self._topic).read(up_to_publish=table.last_publish, hours=hours)

    def _batches(self, choices: Sequence[Choice]) -> Iterator[list[Choice]]:
        batch: list[Choice] = []
        for one in choices:
            if batch and (len(batch) >= BATCH_HOURS or sum(it.size_bytes for it in batch) + one.size_bytes > BATCH_BYTES):
                yield batch
                batch = []
            batch.append(one)
        if batch:
            yield batch

    def _compact(self, batch: Sequence[Choice]) -> None:
        folder = StagingFolder(self._warehouse, self._topic, prefix=f"{PREFIX}{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-")
        folder.open()
        commit = _Commit(self._warehouse, self._topic, folder, self._clock)
        try:
            table = self._warehouse.existing_table(self._topic)
            counted = read_counted(table.records_folder).files()
            hours = [one for choice in batch if (one := self._merged(table, folder, choice, counted)) is not None]
            failpoints.reach("compact.before_commit", self._warehouse.home)
            done = commit.run(hours, self._same_as_before) if hours else []
        finally:
            folder.close(discard=commit.is_ours_to_discard, is_decided=commit.is_decided)
        for one in hours:
            name = hour_name(one.choice.hour)
            if one not in done:
                self._outcome.left[name] = "it was changed meanwhile: the next run looks at it again"
                continue
            self._outcome.hours.append(name)
            self._outcome.files_before += len(one.choice.loads)
            self._outcome.files_after += len(one.merged.facts)
            self._outcome.row_count += one.merged.sums.row_count

    def _merged(self, table: TopicTable, folder: StagingFolder, choice: Choice, counted: Facts) -> _Hour | None:
        """Return the hour with its new files; None, and the reason is noted, if it has to stay as it is."""
        files = choice.main or choice.loads
        proven = {file.path: file.sha256 for file in choice.proof.files} if choice.proof is not None else {}
        known = {file.file_path: facts.sha256 for file in files if (facts := counted.get(str(table.path_of(file)))) is not None}
        try:
            merged = merge(
                self._topic,
                _in_order(table, files),
                path_of=table.path_of,
                folder=folder.path / hour_name(choice.hour),
                schema=table.arrow_schema(),
                target_bytes=self._settings.target_bytes or target_bytes_of(table),
                checksums={**known, **proven},
                buffer_bytes=self._settings.buffer_bytes,
            )
            is_one_set = {file.file_path for file in choice.loads} == {file.file_path for file in files}
            if not is_one_set and read_sums(choice.loads, table.path_of).found != merged.sums.found:
                raise CompactionUnproven(self._topic, "its branches hold other rows")
            if choice.proof is not None:
                _proof(choice, merged, number=0, at_ms=0, table=table)
        except (WarehouseError, FileNotFoundError) as error:
            log.warning("hour_not_compacted", topic=self._topic, hour=hour_name(choice.hour), reason=str(error))
            self._outcome.left[hour_name(choice.hour)] = str(error)
            return None
        return _Hour(choice, merged)

    def _same_as_before(self, table: TopicTable, hours: Sequence[_Hour]) -> list[_Hour]:
        """Return those of which files and proofs are still what they were."""
        touched = [one.choice.hour for one in hours]
        loads, main = (table.files_by_hour(branch, touched) for branch in (LOADS, MAIN))
        taken, history = table.deletes(MAIN, touched), self._proofs(table, touched)
        found = []
        for one in hours:
            hour, proof = one.choice.hour, one.choice.proof
            proofs = history.get(hour, [])
            is_same = (
                proofs[-1].revision == proof.revision if proof is not None and proofs else proof is None and not main.get(hour)
            )
            for before, now in ((one.choice.loads, loads), (one.choice.main, main)):
                is_same = is_same and {file.file_path for file in before} <= {file.file_path for file in now.get(hour, ())}
            if is_same and hour not in taken:
                found.append(one)
        return found


class _Commit:
    """The end of a batch, while no publish and no count of the topic is under way."""

    def __init__(self, warehouse: Warehouse, topic: str, folder: StagingFolder, clock: Clock) -> None:
        self._warehouse = warehouse
        self._topic = topic
        self._folder = folder
        self._clock = clock
        self.is_ours_to_discard = True
        self.is_decided = False

    def run(self, hours: Sequence[_Hour], same: Same) -> list[_Hour]:
        """Commit the hours that are still the same, and return them."""
        topic = self._topic
        with self._warehouse.locked(f"publish-{topic}") as lease, self._warehouse.locked(f"count-{topic}"):
            table = self._warehouse.existing_table(topic)
            still = same(table, hours)
            for one in hours:
                for path in one.merged.facts if one not in still else ():
                    path.unlink(missing_ok=True)
            return still if still and self._commit(table, still, lease) else []

    def _commit(self, table: TopicTable, hours: Sequence[_Hour], lease: Lease) -> bool:
        number = table.last_publish + 1
        record = self._record(table, hours)
        at_ms = self._after(facts.mtime_ns for one in hours for facts in one.merged.facts.values())
        revisions = [
            _proof(one.choice, one.merged, number=number, at_ms=at_ms, table=table)
            for one in hours
            if one.choice.proof is not None
        ]
        record.write(table.records_folder)
        proofs = self._warehouse.proofs(self._topic)
        lease.check()
        if revisions:
            proofs.discard_leftovers(after_publish=table.last_publish)
            proofs.append(revisions)
        failpoints.reach("compact.after_proofs", self._warehouse.home)
        lease.check()
        self._folder.check()
        # The commit may succeed and its answer be lost: then the next sweep decides about the files.
        self.is_ours_to_discard = False
        replacements = [
            Replacement(hour=one.choice.hour, add=[*one.merged.facts], remove_loads=one.choice.loads, remove_main=one.choice.main)
            for one in hours
        ]
        done = commit_compaction(table, folder=self._folder.name, hours=replacements, number=number if revisions else None)
        self.is_decided = True
        if not done:
            self.is_ours_to_discard = True
            (table.records_folder / f"{record.folder}.json").unlink(missing_ok=True)
            proofs.discard_leftovers(after_publish=table.last_publish)
            return False
        failpoints.reach("compact.after_commit", self._warehouse.home)
        replaced = [
            ([table.path_of(file) for file in one.choice.loads], {str(path): facts for path, facts in one.merged.facts.items()})
            for one in hours
        ]
        carry_over(table.records_folder, replaced)
        log.info("hours_compacted", topic=self._topic, hours=len(hours), folder=self._folder.name)
        return True

    def _record(self, table: TopicTable, hours: Sequence[_Hour]) -> CompactionRecord:
        runs: dict[str, Collection[str]] = {}
        for one in hours:
            mine = loads_of_files(table, one.choice.loads)
            runs |= {below(path, self._folder.path): mine for path in one.merged.facts}
        replaced = {hour_name(one.choice.hour): [file.file_path for file in one.choice.loads] for one in hours}
        return CompactionRecord(
            folder=self._folder.name, runs={path: sorted(some) for path, some in runs.items()}, replaced=replaced
        )

    def _after(self, times_ns: Iterator[int]) -> int:
        """Return the time once it is behind those of the files: one that is older than its proof is not read at each publish."""
        newest_ms = max(times_ns, default=0) // 1_000_000 + 1
        self._clock.sleep(min(2_000, max(0, newest_ms - self._clock.now_ms())))
        return self._clock.now_ms()


def _proof(choice: Choice, merged: Merged, *, number: int, at_ms: int, table: TopicTable) -> Proof:
    """Return the hour's next revision. Raises CompactionUnproven if its files would not hold the rows that were proven."""
    before = choice.proof
    assert before is not None
    removed = {file.file_path for file in choice.main}
    new = [_proven_file(path, merged) for path in merged.facts]
    files = sorted([file for file in before.files if file.path not in removed] + new, key=lambda one: one.path)
    digest = f"{sum(int(one.digest, 16) for one in files) % MODULUS:032x}"
    if (sum(one.row_count for one in files), digest) != (before.row_count, before.digest):
        raise CompactionUnproven(choice_name(choice, table), "its rows are not those that were proven: publish it first")
    return replace(
        before,
        revision=before.revision + 1,
        previous=before.revision,
        publish=number,
        verdict=COMPACTED,
        reason=f"{len(choice.main)} files merged into {len(new)}: the rows of revision {before.revision}",
        files=tuple(files),
        gone=tuple(path for path in before.gone if path not in {file.file_path for file in choice.loads}),
        windows="[]",
        loads_snapshot_id=table.snapshot_id(LOADS),
        main_snapshot_id=table.snapshot_id(MAIN),
        at_ms=at_ms,
    )


def _in_order(table: TopicTable, files: Sequence[DataFile]) -> list[DataFile]:
    """Return the files by the time of their first row, so that the new ones are nearly in order throughout."""
    at = table.iceberg.schema().find_field("_timestamp").field_id
    return sorted(files, key=lambda file: int.from_bytes((file.lower_bounds or {}).get(at, b""), "little", signed=True))


def _paths(files: Sequence[DataFile]) -> set[str]:
    return {file.file_path for file in files}


def choice_name(choice: Choice, table: TopicTable) -> str:
    return f"{table.topic} {hour_name(choice.hour)}"


def _proven_file(path: StorePath, merged: Merged) -> ProvenFile:
    facts = merged.facts[path]
    return ProvenFile(
        path=uri_of(path),
        size_bytes=facts.size_bytes,
        sha256=facts.sha256,
        row_count=facts.row_count,
        digest=f"{facts.digest:032x}",
    )
