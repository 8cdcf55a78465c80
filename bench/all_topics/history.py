"""`python -m bench.all_topics.history`: how long a commit takes as a table's history grows, with maintenance or without.

Each hour of history is a load of two files, committed as a load commits; ten hours at a time are published by the gate, whose
audit knows these hours' windows and keeps no older ones. With maintenance a compaction and a clean-up run after every `--every`
hours, as the DAG `compact` would. There is no Spark, no broker, no audit service. Prints one JSON object: for each tenth of the
history the median time of a load's commit and of a publish, by the clock and by the processor, in milliseconds, and what stands
there at its end.

`--after 100,10000` measures at these lengths of history without living through them: a table is made with so many published
hours of one file each, as compactions leave it, and 60 hours are added to it. By the processor, so that a busy machine may do it.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.spark.maintenance.compact_job import CompactJob
from headrace.spark.maintenance.expire_job import ExpireJob
from headrace.spark.maintenance.proofs_job import merge_proofs
from headrace.spark.maintenance.settings import ExpirySettings
from headrace.spark.publish.gate import HOUR_MS, AuditedWindow
from headrace.spark.publish.publish_job import Gate
from headrace.spark.source.columns import HOUR_FIELD
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.warehouse.commits.manifest_bins import merge_manifests
from headrace.spark.warehouse.counted import Facts, read_counted
from headrace.spark.warehouse.file_rows import FileFacts, read_file
from headrace.spark.warehouse.load_record import LoadRecord
from headrace.spark.warehouse.proofs import Proof, ProvenFile, proven_offsets
from headrace.spark.warehouse.store import uri_of
from headrace.spark.warehouse.topic_table import LOADS, MAIN
from headrace.spark.warehouse.warehouse import Warehouse

TOPIC = "history"
ROWS = 20
TOGETHER = 10
"""Hours of one publish."""
HOUR_US = 3_600_000_000
EVENT = pa.schema([("path", pa.string())])


class History:
    """One table, an hour after another."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = Warehouse(folder)
        self.loads: list[tuple[float, float]] = []
        self.publishes: list[tuple[float, float]] = []
        self.maintenance_s = 0.0
        self._counted_to = -1
        self._waiting: dict[int, Facts] = {}

    def add(self, hour: int) -> None:
        begin = hour * ROWS
        run = f"run-{hour:06}"
        paths = []
        for part in range(2):
            first, count = begin + part * ROWS // 2, ROWS // 2
            paths.append(self.warehouse.data_folder(TOPIC) / run / f"{HOUR_FIELD}={hour}" / f"part-{part}.parquet")
            _write(Path(str(paths[-1])), hour, first, count)
        facts = {path: read_file(path) for path in paths}
        digests: dict[int, int] = {}
        for _, rows in facts.values():
            for start, one in rows.hashes.totals(rows.windows).items():
                digests[int(start)] = (digests.get(int(start), 0) + one) % (1 << 128)
        ranges = (OffsetRange(partition=0, from_offset=begin, to_offset=begin + ROWS),)
        record = LoadRecord(run=run, ranges=ranges, row_count=ROWS, digests={0: digests})

        def load() -> None:
            table = self.warehouse.table_with(TOPIC, EVENT)
            assert table.commit_load(record=record, files=paths, event_columns=EVENT)

        self.loads.append(_timed(load))
        self._waiting[hour] = {str(path): one for path, (one, _) in facts.items()}
        if hour % TOGETHER == TOGETHER - 1:
            self._count()
            self.publishes.append(_timed(self._publish))

    def _count(self) -> None:
        records = self.warehouse.existing_table(TOPIC).records_folder
        counted = read_counted(records)
        counted.runs |= {f"run-{hour:06}": facts for hour, facts in self._waiting.items() if hour > self._counted_to}
        self._counted_to = max(self._counted_to, *self._waiting, -1)
        counted.write(records)

    def _publish(self) -> None:
        gate = Gate(self.warehouse, TOPIC, lambda topic: [_window(hour) for hour in self._waiting])
        done = gate.publish(wait_ms=0)
        assert len(done.published) == len(self._waiting), done
        self._waiting = {}

    def pretend(self, hours: int) -> None:
        """Make so many published hours at once, of one file each."""
        run, facts = "run-before", {}
        for hour in range(hours):
            path = self.warehouse.data_folder(TOPIC) / run / f"{HOUR_FIELD}={hour}" / "part.parquet"
            _write(Path(str(path)), hour, hour * ROWS, ROWS)
            facts[path] = read_file(path)[0]
        ranges = (OffsetRange(partition=0, from_offset=0, to_offset=hours * ROWS),)
        table = self.warehouse.table_with(TOPIC, EVENT)
        assert table.commit_load(
            record=LoadRecord(run=run, ranges=ranges, row_count=hours * ROWS), files=[*facts], event_columns=EVENT
        )
        proofs = [_proof(hour, 1, one.digest, [(uri_of(path), one)]) for hour, (path, one) in enumerate(facts.items())]
        self.warehouse.proofs(TOPIC).append(proofs)
        table.commit_publish(number=1, add=table.files(LOADS), remove=[])
        counted = read_counted(table.records_folder)
        counted.runs[run] = {str(path): one for path, one in facts.items()}
        counted.write(table.records_folder)
        for branch in (LOADS, MAIN):
            merge_manifests(table, branch, at_least=2)
        Gate(self.warehouse, TOPIC, lambda topic: ()).publish(wait_ms=0)

    def maintain(self) -> None:
        self._count()
        began = time.perf_counter()
        settings = ExpirySettings(max_age_ms=0, min_snapshots=10, grace_ms=0)
        CompactJob(self.warehouse, TOPIC).run()
        merge_proofs(self.warehouse)
        ExpireJob(self.warehouse, TOPIC, settings).run()
        ExpireJob(self.warehouse, None, settings).run()
        self.maintenance_s += time.perf_counter() - began


def _window(hour: int) -> AuditedWindow:
    return AuditedWindow.of({"window_start_ms": hour * HOUR_MS, "verdict": "COMPLETE", "tiers": {"warehouse": ROWS}})


def _proof(hour: int, number: int, digest: int, facts: list[tuple[str, FileFacts]]) -> Proof:
    return Proof(
        topic=TOPIC,
        hour=hour,
        revision=1,
        previous=None,
        publish=number,
        verdict="COMPLETE",
        reason="bench",
        row_count=ROWS,
        digest=f"{digest:032x}",
        files=tuple(
            ProvenFile(
                path=path, size_bytes=one.size_bytes, sha256=one.sha256, row_count=one.row_count, digest=f"{one.digest:032x}"
            )
            for path, one in facts
        ),
        offsets=proven_offsets([one for _, one in facts], {0: (hour + 1) * ROWS}),
        at_ms=time.time_ns() // 1_000_000,
    )


def _write(path: Path, hour: int, first: int, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    offsets = range(first, first + count)
    columns: dict[str, Any] = {
        "path": pa.array([f"/articles/{offset}" for offset in offsets]),
        "_topic_partition": pa.array([0] * count, pa.int32()),
        "_offset": pa.array(list(offsets), pa.int64()),
        "_timestamp": pa.array([hour * HOUR_US + offset for offset in offsets], pa.timestamp("us", "UTC")),
        "_schema_id": pa.array([1] * count, pa.int32()),
    }
    pq.write_table(pa.table(columns), path)


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def measure(hours: int, every: int | None) -> dict[str, Any]:
    """Return the figures of one history; `every`: hours between two runs of maintenance, None: none."""
    with tempfile.TemporaryDirectory(prefix="headrace-history-") as name:
        history = History(Path(name) / "warehouse")
        for hour in range(hours):
            history.add(hour)
            if every is not None and hour % every == every - 1:
                history.maintain()
            if hour % (tenth := max(1, hours // 10)) == tenth - 1:
                load, publish = (_medians(one) for one in (history.loads[-tenth:], history.publishes[-(tenth // TOGETHER) :]))
                print(f"{hour + 1} hours: commits of loads {load}, publishes {publish}", file=sys.stderr, flush=True)
        table = history.warehouse.existing_table(TOPIC)
        head = table.iceberg.metadata.snapshot_by_name(LOADS)
        assert head is not None
        return {
            "load_commit_ms": _tenths(history.loads),
            "publish_ms": _tenths(history.publishes),
            "maintenance_s": round(history.maintenance_s, 1),
            "snapshots": len(table.iceberg.metadata.snapshots),
            "manifests": len(head.manifests(table.iceberg.io)),
            "metadata_bytes": Path(table.iceberg.metadata_location.removeprefix("file://")).stat().st_size,
            "rows": sum(table.row_counts_by_hour().values()),
        }


def measure_after(hours: int) -> dict[str, Any]:
    """Return the medians of 60 more hours after so many."""
    with tempfile.TemporaryDirectory(prefix="headrace-history-") as name:
        history = History(Path(name) / "warehouse")
        history.pretend(hours)
        for hour in range(hours, hours + 60):
            history.add(hour)
        history.maintain()
        found = {"load_commit_ms": _medians(history.loads), "publish_ms": _medians(history.publishes)}
        print(f"after {hours} hours: {found}", file=sys.stderr, flush=True)
        return {**found, "publishes_cpu_ms": [round(cpu, 1) for _, cpu in history.publishes]}


def _tenths(found: list[tuple[float, float]]) -> dict[str, list[float]]:
    step = max(1, len(found) // 10)
    parts = [found[at : at + step] for at in range(0, len(found), step)][:10]
    return {
        name: [round(statistics.median(one[at] for one in part), 1) for part in parts] for at, name in enumerate(("wall", "cpu"))
    }


def _medians(found: list[tuple[float, float]]) -> list[float]:
    return [round(statistics.median(one[at] for one in found), 1) for at in (0, 1)] if found else []


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.all_topics.history",
        description=__doc__,
        epilog="example: python -m bench.all_topics.history --hours 2000",
    )
    parser.add_argument("--hours", type=int, default=10_000, help="(default %(default)s)")
    parser.add_argument("--every", type=int, default=48, help="hours between two runs of maintenance (default %(default)s)")
    parser.add_argument("--without", action="store_true", help="measure it without maintenance, too")
    parser.add_argument("--after", default="", help="lengths of history, with commas: see above")
    words = parser.parse_args()
    if words.after:
        print(json.dumps({one: measure_after(int(one)) for one in words.after.split(",")}, indent=2))
        return 0
    result = {"hours": words.hours, "with_maintenance": measure(words.hours, words.every)}
    if words.without:
        result["without"] = measure(words.hours, None)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
