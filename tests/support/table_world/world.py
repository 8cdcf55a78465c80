"""One history of a table, drawn from a seed: loads, counts and publishes, and what others do to the table in between."""

import io
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile

from headrace.audit.model.tiers import OFFLINE, WAREHOUSE
from headrace.runtime.clock import ManualClock
from headrace.spark.errors import WarehouseError
from headrace.spark.publish.gate import AuditedWindow
from headrace.spark.publish.publish_job import Gate, PublishOutcome
from headrace.spark.warehouse.counted import Counted
from headrace.spark.warehouse.file_rows import FileFacts, read_file
from headrace.spark.warehouse.hours import hour_of
from headrace.spark.warehouse.proofs import Proof
from headrace.spark.warehouse.topic_table import LOADS, MAIN

from .memory_files import MemoryFiles
from .memory_table import Delete, MemoryTable, MemoryWarehouse, data_file

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
STRAY = 10_000
"""A row at or behind it is of no record."""

Row = tuple[int, int]
"""Offset and content; the content of a sound row is 0."""

EDGES = (
    "roll back", "roll back loads", "compact", "lose", "double", "alter", "twice", "stray", "delete", "twice on loads",
    "spoil", "rot", "wrong commit", "altered before",
)  # fmt: skip
SHARE = 0.3


class TableWorld:
    """What happens in one history. Each kind of change is possible in it or is not."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(f"table {seed}")
        self.edges = {name for name in EDGES if random.Random(f"table {name} {seed}").random() < SHARE}
        self.hours = list(range(self.random.randint(1, 2)))
        self.table = MemoryTable(MemoryFiles())
        self.warehouse = MemoryWarehouse(self.table)
        self.clock = ManualClock(NOW_MS)
        self.rows: dict[str, list[Row]] = {}
        """File → what a reader finds in it; nothing in one that cannot be read."""
        self.firsts: dict[str, int] = {}
        """File of a load → the first offset that the load had read."""
        self.log: dict[int, int] = {}
        """Offset of a record → its hour."""
        self.told: dict[int, list[Row]] = {}
        """Hour → rows of `loads` that the audit was told of."""
        self.told_to = 0
        """The audit was told of the loads up to this offset."""
        self.counted: dict[str, tuple[FileFacts, list[Row]]] = {}
        """File → what the count has read of it."""
        self.rotten: dict[str, str] = {}
        self.unseen: set[str] = set()
        """Files with other bytes that nothing shows: their turn to be read again has not come."""
        self.bad: set[int] = set()
        """Offsets of records of which the audit has learnt that a tier before the warehouse altered them."""
        self.touched: set[int] = set()
        """Hours that others have changed on `main` or on the disk."""
        self.published: dict[int, set[int]] = {}
        """Hour → offsets that readers of `main` got after the last publish."""
        self.removed: dict[int, set[int]] = {}
        """Hour → offsets of `published` that others have taken from `main`. Rows that others put there themselves, as by a
        rollback to before we withdrew them, do not count."""

    # -- what happens ----------------------------------------------------------------------------------------------------

    def run(self, look: Callable[["TableWorld", PublishOutcome], None]) -> "TableWorld":
        """Let everything happen; `look` is called after each publish."""
        ours = [self.load, self.load, self.count, lambda: look(self, self.publish())]
        others = [deed for name, deed in self._deeds().items() if name in self.edges]
        for _ in range(self.random.randint(8, 30)):
            self._tick()
            self.random.choice(others if others and self.random.random() < 0.35 else ours)()
        self.table.is_next_commit_wrong = False
        for _ in range(3):  # the first one finds out, the second one publishes anew
            self._tick()
            self.count()
            look(self, self.publish())
        return self

    def _tick(self) -> None:
        self.clock.advance(self.random.randint(1, 5_000))
        self.table.files_of.now_ms = self.clock.now_ms()

    def load(self) -> None:
        """Load new records, or again what was rolled back."""
        again = sorted(offset for offset in self.log if offset >= self.table.loaded_to)
        hour = self.log[again[0]] if again else self.random.choice(self.hours)
        offsets = [self.table.loaded_to + at for at in range(self.random.randint(1, 4))]
        if again:
            offsets = list(takewhile(lambda at: self.log.get(at) == hour, offsets))
        self.firsts[f"data/{len(self.rows)}"] = offsets[0]
        self.table.loaded_to = offsets[-1] + 1
        self.log |= dict.fromkeys(offsets, hour)
        self.table.change(LOADS, add=[self._write(hour, [(offset, 0) for offset in offsets])])

    def count(self) -> None:
        """Read what is new or changed on either branch, and tell the audit what stands on `loads`."""
        for name in sorted(self.unseen & self.counted.keys()):  # their turn has come, as in `rotation`
            self.rotten[str(self.table.path_of(name))] = self.counted[name][0].etag
        self.unseen.clear()
        known = {name: one for name, one in self.counted.items() if self._is_still(name, one[0])}
        self.counted = {}
        for name in {file.file_path for branch in (LOADS, MAIN) for file in self.table.files(branch)}:
            try:
                self.counted[name] = known.get(name) or (read_file(self.table.path_of(name))[0], self.rows[name])
            except WarehouseError:
                continue  # a damaged one: its rows are not there
        self.told_to, self.told = self.table.loaded_to, {}
        for file in self.table.files(LOADS):
            _, rows = self.counted.get(file.file_path, (None, []))
            self.told.setdefault(hour_of(file), []).extend(rows)
        state = Counted(others={str(self.table.path_of(name)): facts for name, (facts, _) in self.counted.items()})
        state.rotten = self.rotten
        state.write(self.table.records_folder)

    def _is_still(self, name: str, facts: FileFacts) -> bool:
        path = self.table.path_of(name)
        return str(path) not in self.rotten and facts.is_still(path)

    def publish(self) -> PublishOutcome:
        gate = Gate(cast("Any", self.warehouse), "clicks", self._ask, clock=self.clock)
        outcome = gate.publish(wait_ms=0)
        self.published = {hour: {offset for offset, _ in self.readers(hour)} for hour in self.hours}
        return outcome

    # -- the audit -------------------------------------------------------------------------------------------------------

    def _ask(self, topic: str) -> Sequence[AuditedWindow]:
        return [AuditedWindow.of(self._words(hour, rows)) for hour, rows in sorted(self.told.items())]

    def _words(self, hour: int, rows: Sequence[Row]) -> dict[str, Any]:
        count = Counter(offset for offset, _ in rows)
        expected = {offset for offset, of in self.log.items() if of == hour and offset < self.told_to}
        found = [(WAREHOUSE, "missing", offset) for offset in sorted(expected - count.keys())]
        found += [(WAREHOUSE, "altered", offset) for offset in sorted({at for at, content in rows if content})]
        found += [(WAREHOUSE, "doubled", at) for at in sorted(count) if count[at] > 1 or at >= STRAY]
        found += [(OFFLINE, "altered", offset) for offset in sorted(self.bad & expected)]
        kinds = Counter(kind for _, kind, _ in found)
        words: dict[str, Any] = {"window_start_ms": hour * HOUR_MS, "tiers": {WAREHOUSE: len(rows)}, **kinds}
        words["verdict"] = next((word for kind, word in _WORDS if kind in kinds), "COMPLETE")
        words["differences"] = [
            {"tier": tier, "partition": 0, "records": [{"kind": kind, "first_offset": at, "count": 1, "stray": at >= STRAY}]}
            for tier, kind, at in found
        ]
        return words

    # -- what a reader gets ----------------------------------------------------------------------------------------------

    def readers(self, hour: int) -> list[Row]:
        """Return the rows of the hour that a reader of `main` gets, by Iceberg's rules."""
        now = self.table.branches[MAIN]
        found: list[Row] = []
        for entry in now.entries:
            if hour_of(entry.file) == hour:
                taken = {row for one in now.deletes if one.may_take_of(entry) for row in self.rows[one.path]}
                found += [row for row in self.rows[entry.file.file_path] if row not in taken]
        return found

    def records(self, hour: int) -> list[int]:
        """Return the offsets of the hour's records that may be shown to readers."""
        return sorted(offset for offset, of in self.log.items() if of == hour and offset not in self.bad)

    def history(self, hour: int) -> list[Proof]:
        return self.warehouse.proofs("clicks").read(up_to_publish=self.table.last_publish).get(hour, [])

    def is_hidden(self, hour: int) -> bool:
        """Return whether a file of the hour has bytes that nobody can have noticed."""
        names = {file.file_path for branch in (LOADS, MAIN) for file in self.table.files(branch, {hour})}
        return bool(names & self.unseen)

    # -- what others do --------------------------------------------------------------------------------------------------

    def _deeds(self) -> dict[str, Callable[[], None]]:
        return {
            "roll back": lambda: self._on_main(self._roll_back),
            "roll back loads": self._roll_back_loads,
            "altered before": self._altered_before,
            "compact": lambda: self._rewrite(lambda rows: rows),
            "lose": lambda: self._rewrite(lambda rows: rows[1:] if self.random.random() < 0.5 else rows[:-1]),
            "double": lambda: self._rewrite(lambda rows: [*rows[self.random.randint(0, 1) :], rows[-1]]),
            "alter": lambda: self._rewrite(lambda rows: [(rows[0][0], 1), *rows[1:]]),
            "twice": lambda: self._on_main(lambda: self._again(MAIN)),
            "stray": lambda: self._on_main(self._stray),
            "delete": lambda: self._on_main(self._delete),
            "twice on loads": lambda: self._again(LOADS),
            "spoil": lambda: self._spoil(is_seen=True),
            "rot": lambda: self._spoil(is_seen=False),
            "wrong commit": self._wrong_commit,
        }

    def _on_main(self, deed: Callable[[], None]) -> None:
        before = {hour: {offset for offset, _ in self.readers(hour)} for hour in self.hours}
        marks = {hour: self._marks(hour) for hour in self.hours}
        deed()
        for hour in self.hours:
            after = {offset for offset, _ in self.readers(hour)}
            self.removed[hour] = (self.removed.get(hour, set()) | (before[hour] & self.published.get(hour, set()))) - after
            if self._marks(hour) != marks[hour]:
                self.touched.add(hour)

    def _marks(self, hour: int) -> list[Any]:
        now = self.table.branches[MAIN]
        names = [(one.file.file_path, one.number) for one in now.entries if hour_of(one.file) == hour]
        return sorted(names) + sorted((one.path, one.number) for one in now.deletes if one.hour == hour)

    def _roll_back(self) -> None:
        self.table.commits += 1
        self.table.branches[MAIN] = self.random.choice(self.table.history)

    def _roll_back_loads(self) -> None:
        """The last loads are gone, and are loaded again."""
        border = self.random.randint(0, self.table.loaded_to)
        gone = {name for name in (file.file_path for file in self.table.files(LOADS)) if self._first(name) >= border}
        if gone:
            self.table.loaded_to = min(map(self._first, gone))
            self.table.change(LOADS, remove=gone)

    def _first(self, name: str) -> int:
        return self.firsts.get(name, -1)

    def _altered_before(self) -> None:
        if self.log:
            self.bad.add(self.random.choice(list(self.log)))

    def _rewrite(self, change: Callable[[list[Row]], list[Row]]) -> None:
        def deed() -> None:
            file = self._one_of(MAIN)
            rows = self.readers(hour_of(file)) if file is not None else []
            if file is None or not rows:
                return
            new = change(rows)
            gone = [one.file_path for one in self.table.files(MAIN, {hour_of(file)})]
            self.table.change(MAIN, add=[self._write(hour_of(file), new)] if new else [], remove=gone)

        self._on_main(deed)

    def _again(self, branch: str) -> None:
        file = self._one_of(branch)
        if file is not None:
            self.table.change(branch, add=[file])

    def _stray(self) -> None:
        hour = self.random.choice(self.hours)
        self.table.change(MAIN, add=[self._write(hour, [(STRAY + self.table.commits, 0)])])

    def _delete(self) -> None:
        """A delete file takes rows of an hour, by place or by value."""
        hour = self.random.choice(self.hours)
        rows = self.readers(hour)
        if not rows:
            return
        taken = self.random.sample(rows, self.random.randint(1, len(rows)))
        names = [file.file_path for file in self.table.files(MAIN, {hour})]
        if self.random.random() < 0.5:
            named: dict[str, Any] = {"_offset": pa.array([offset for offset, _ in taken], pa.int64())}
            columns: tuple[str, ...] = ("_offset",)
        else:
            places = [(name, at) for name in sorted(set(names)) for at, row in enumerate(self.rows[name]) if row in taken]
            named = {"file_path": [name for name, _ in places], "pos": pa.array([at for _, at in places], pa.int64())}
            columns = ()
        name = f"data/delete-{self.table.commits}"
        self._store(name, pa.table(named))
        self.rows[name] = taken
        self.table.change(MAIN)
        delete = Delete(name, hour, self.table.commits, len(taken), columns)
        self.table.change(MAIN, deletes=[delete])

    def _spoil(self, *, is_seen: bool) -> None:
        """A file gets other bytes; without `is_seen` neither its size nor its time shows it."""
        file = self._one_of(self.random.choice([LOADS, MAIN]))
        if file is None or file.file_path in self.unseen:
            return
        name, written = file.file_path, self.table.files_of.written_ms
        before, at_ms = self.table.files_of.content[name], written[name]
        if is_seen:
            rows = self.rows[name][1:] or [(offset, 1) for offset, _ in self.rows[name]]
            self._store(name, _table(hour_of(file), rows))
            self.rows[name] = rows
        else:
            self.table.files_of.content[name] = b"rotten" + before[6:]
            self.rows[name], written[name] = [], at_ms
            self.unseen.add(name)
        self.touched.add(hour_of(file))

    def _wrong_commit(self) -> None:
        self.table.is_next_commit_wrong = True
        self.touched |= set(self.hours)

    def _one_of(self, branch: str) -> DataFile | None:
        files = self.table.files(branch)
        return self.random.choice(files) if files else None

    def _write(self, hour: int, rows: list[Row]) -> DataFile:
        name = f"data/{len(self.rows)}"
        self.rows[name] = list(rows)
        self._store(name, _table(hour, rows))
        return data_file(name, hour, len(rows))

    def _store(self, name: str, rows: pa.Table) -> None:
        out = io.BytesIO()
        pq.write_table(rows, out)
        self.table.path_of(name).write_bytes(out.getvalue())


_WORDS = (("missing", "INCOMPLETE"), ("altered", "ALTERED"), ("doubled", "DOUBLED"))


def _table(hour: int, rows: Sequence[Row]) -> pa.Table:
    count = len(rows)
    return pa.table(
        {
            "content": pa.array([content for _, content in rows], pa.int64()),
            "_topic_partition": pa.array([0] * count, pa.int32()),
            "_offset": pa.array([offset for offset, _ in rows], pa.int64()),
            "_timestamp": pa.array([hour * HOUR_MS * 1_000] * count, pa.timestamp("us", "UTC")),
            "_schema_id": pa.array([1] * count, pa.int32()),
        }
    )
