"""`python -m tests.integration.maintenance.rounds`: kills compactions, retentions and clean-ups; looks at every row after each.

A round loads rows into some hours, perhaps publishes them, and starts a compaction, a retention or a clean-up as a process of its
own, which dies by SIGKILL: at a named place, after a random time, or at a random one of its steps (a file opened or deleted, a
catalog or a lease asked). Beside it others load, publish, or compact as well. Then everything is counted and published:

    rows      what DuckDB reads from the raw files of both branches is what was loaded, each row once, less what retention dropped
    books     what the audit was told is all that was ever loaded, each row once; nothing is withdrawn
    proofs    recomputed from the files, all are right
    leftovers after a clean-up the files that are there are those that the table names
"""

import argparse
import gc
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from headrace.runtime.clock import ManualClock
from headrace.spark.maintenance.compact_job import CompactJob
from headrace.spark.maintenance.expire_job import ExpireJob
from headrace.spark.maintenance.retention_job import RetentionJob
from headrace.spark.maintenance.settings import CompactSettings, ExpirySettings
from headrace.spark.publish.verify import verify
from headrace.spark.warehouse.store import local_path
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from headrace.spark.warehouse.warehouse import Warehouse
from tests.support.stored_rows import HOUR_MS, span, store
from tests.support.stored_table import Stored

TOPIC = "clicks"
HOURS = 6
POINTS = {
    "compact": ("compact.before_commit", "compact.after_proofs", "compact.after_commit"),
    "retain": ("retention.before_commit", "retention.after_commit"),
    "expire": (),
}
STEPS = ("open", "os.remove", "os.rename", "os.rmdir", "sqlite3.connect", "os.listdir", "os.scandir")
MOST_STEPS = 400
LONGEST_S = 3.0
ENDS_S = 120.0


class World:
    """One table, and what must be in it."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.stored = Stored(folder / "warehouse", TOPIC)
        self.home = folder
        self.chance = chance
        self.rows: dict[int, int] = {}
        """Offset → hour, of the rows that must be in the table."""
        self.ever: set[int] = set()
        self.first_hour = 0
        self.loads = 0

    def load(self, hours: range) -> None:
        """Load some rows, of one hour or of several."""
        begin = len(self.ever)
        count = self.chance.choice((1, 2, 30))
        of = {offset: self.chance.choice(hours) for offset in range(begin, begin + count)}
        rows = [(0, offset, hour * HOUR_MS + offset) for offset, hour in of.items()]
        lease = self.stored.warehouse.leases.take(f"run/{TOPIC}/run-{begin}")  # as a load does: a clean-up may be under way
        assert store(self.stored.warehouse, f"run-{begin}", rows, [span(0, begin, begin + count)], topic=TOPIC)
        lease.release()
        self.rows |= of
        self.ever |= set(of)

    def living(self) -> range:
        return range(self.first_hour, self.first_hour + HOURS)

    def raw(self, branch: str) -> list[int]:
        """Return the offsets that DuckDB reads from the branch's files."""
        table = Warehouse(self.stored.warehouse.settings).existing_table(TOPIC)
        files = [str(local_path(file.file_path)) for file in table.files(branch)]
        if not files:
            return []
        sql = f"SELECT _offset, epoch_ms(_timestamp) FROM read_parquet({files!r}, hive_partitioning=false) ORDER BY ALL"
        found = duckdb.sql(sql).fetchall()
        for offset, at_ms in found:
            assert at_ms == (at_ms // HOUR_MS) * HOUR_MS + offset, "a row has another row's time"
        return [int(offset) for offset, _ in found]

    def settle(self, what: str, cutoff: int) -> str:
        """Look at everything; return what the dead process had done."""
        found = self.raw(LOADS)
        kept = sorted(offset for offset, hour in self.rows.items() if hour >= cutoff)
        done = "nothing lost"
        if what == "retain" and found == kept and kept != sorted(self.rows):
            self.rows = {offset: self.rows[offset] for offset in kept}
            done = "dropped"
        assert found == sorted(self.rows), (len(found), len(self.rows))
        published = self.stored.publish()
        assert published.withdrawn == (), published.withdrawn
        through = self.stored.warehouse.existing_table(TOPIC).expired_through()
        readable = sorted(offset for offset, hour in self.rows.items() if through is None or hour > through)
        assert self.raw(MAIN) == readable
        windows = [one for told in self.stored.audit._told.values() for one in told.windows.values()]
        held = sorted(at for one in windows for some in one.held for at in range(some.first, some.end))
        assert held == sorted(self.ever), "the audit was told something else than what was loaded"
        faults = [fault for one in verify(self.stored.warehouse, TOPIC) for fault in one.faults]
        assert faults == [], faults
        return done

    def clean(self) -> None:
        """Clean up without a grace period, and look at what is left."""
        expire(self.stored.warehouse, 1)
        table = self.stored.warehouse.existing_table(TOPIC)
        snapshots = [one.snapshot_id for one in table.iceberg.metadata.snapshots]
        planned = [task for one in snapshots for task in table.iceberg.scan(snapshot_id=one).plan_files()]
        named = {local_path(task.file.file_path) for task in planned}
        assert set(Path(str(table.data_folder)).rglob("*.parquet")) == named


def compact(warehouse: Warehouse, cutoff: int) -> None:
    settings = CompactSettings(closed_after_ms=0, most_manifests=6, buffer_bytes=2_000)
    CompactJob(warehouse, TOPIC, settings, clock=ManualClock(10_000 * HOUR_MS)).run()


def retain(warehouse: Warehouse, cutoff: int) -> None:
    RetentionJob(warehouse, TOPIC, apply=True, keep_hours=1, clock=ManualClock((cutoff + 1) * HOUR_MS)).run()


def expire(warehouse: Warehouse, cutoff: int) -> None:
    settings = ExpirySettings(max_age_ms=0, min_snapshots=1, grace_ms=0)
    ExpireJob(warehouse, TOPIC, settings, clock=ManualClock(3_000_000_000_000)).run()


JOBS: dict[str, Callable[[Warehouse, int], None]] = {"compact": compact, "retain": retain, "expire": expire}


def play(world: World) -> str:
    """Play a round and return what it did. Raises AssertionError."""
    chance = world.chance
    for _ in range(chance.randint(1, 5)):
        world.load(world.living())
    if chance.random() < 0.8:
        world.stored.publish()
    what = chance.choices(list(JOBS), (5, 2, 2))[0]
    cutoff = world.first_hour + 1 if what == "retain" else world.first_hour
    world.first_hour = cutoff
    how = chance.choice(("point", "time", "step"))
    points = POINTS[what]
    point = chance.choice(points) if how == "point" and points else None
    armed = world.home / "failpoints" / (point or "none")
    armed.parent.mkdir(exist_ok=True)
    if point is not None:
        armed.touch()
    job = started(world, what, cutoff, at_step=chance.randint(1, MOST_STEPS) if how == "step" else None)
    other = None
    beside = chance.random()
    if beside < 0.4:
        world.load(world.living())
    elif beside < 0.5 and point is None:
        other = started(world, "compact", cutoff, at_step=None)
    elif beside < 0.65 and point is None:
        assert world.stored.publish().withdrawn == ()
    until = time.monotonic() + (chance.uniform(0, LONGEST_S) if how == "time" else ENDS_S)
    reached = armed.with_name(f"{armed.name}.reached")
    was_killed = True
    while not (point is not None and reached.exists()) and time.monotonic() < until:
        ended, status = os.waitpid(job, os.WNOHANG)
        if ended:
            was_killed = os.WIFSIGNALED(status)
            assert was_killed or os.WEXITSTATUS(status) == 0, "the job failed: see above"
            job = 0
            break
        time.sleep(0.005)
    if job:
        os.kill(job, signal.SIGKILL)
        os.waitpid(job, 0)
    for path in (armed, reached):
        path.unlink(missing_ok=True)
    if other is not None:
        _, status = os.waitpid(other, 0)
        assert status == 0, "the compaction beside it failed: see above"
    done = world.settle(what, cutoff)
    if chance.random() < 0.3:
        world.clean()
        world.settle("clean", world.first_hour)
    return f"{what}, {f'killed by {how}' if was_killed else 'not killed'}, {done}"


def started(world: World, what: str, cutoff: int, *, at_step: int | None) -> int:
    """Return the id of a process that does the job; it dies at a step of its own if asked."""
    gc.collect()
    pid = os.fork()
    if pid:
        return pid
    try:
        if at_step is not None:
            die_at(at_step)
        JOBS[what](Warehouse(world.stored.warehouse.settings), cutoff)
    except BaseException as error:
        print(f"{what}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def die_at(step: int) -> None:
    left = [step]

    def hook(event: str, words: Any) -> None:
        if event in STEPS:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def search(rounds: int, seed: int, *, told: Callable[[str], None] = print) -> Counter[str]:
    """Play rounds, with a new table every twenty. Raises AssertionError with the seed."""
    states: Counter[str] = Counter()
    for first in range(0, rounds, 20):
        with tempfile.TemporaryDirectory(prefix="headrace-maintenance-") as name:
            world = World(Path(name), random.Random(seed + first))
            for number in range(first, min(first + 20, rounds)):
                try:
                    state = play(world)
                except BaseException as error:
                    raise AssertionError(f"round {number + 1} of seed {seed}: {error}") from error
                states[state] += 1
                told(f"round {number + 1}: {state}")
    return states


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.maintenance.rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    words = parser.parse_args()
    states = search(words.rounds, words.seed, told=lambda line: print(line, flush=True))
    print(f"{words.rounds} rounds from seed {words.seed}: {dict(states)}, 0 lost, 0 doubled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
