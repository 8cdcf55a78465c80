"""`python -m bench.all_topics.history`: how long a commit takes as a table's history grows, with maintenance or without.

Each hour of history is a load of two files, committed as a load commits; ten hours at a time are moved to `main` with proofs, as
a publish does. With maintenance a compaction and a clean-up run after every `--every` hours, as the DAG `compact` would. What is
timed is the table's own: there is no Spark, no broker, no audit. Prints one JSON object: for each tenth of the history the median
time of a load's commit and of a publish, by the clock and by the processor, in milliseconds, and what stands there at its end.
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
from headrace.spark.source.columns import HOUR_FIELD
from headrace.spark.source.offset_ranges import OffsetRange
from headrace.spark.warehouse.file_rows import FileFacts, read_file
from headrace.spark.warehouse.load_record import LoadRecord
from headrace.spark.warehouse.proofs import Proof, ProvenFile, proven_offsets
from headrace.spark.warehouse.store import uri_of
from headrace.spark.warehouse.topic_table import LOADS
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
        self._waiting: dict[int, tuple[int, list[tuple[str, FileFacts]]]] = {}

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
        self._waiting[hour] = (sum(digests.values()) % (1 << 128), [(uri_of(path), one) for path, (one, _) in facts.items()])
        if hour % TOGETHER == TOGETHER - 1:
            self.publishes.append(_timed(self._publish))

    def _publish(self) -> None:
        table = self.warehouse.existing_table(TOPIC)
        number = table.last_publish + 1
        proofs = [_proof(hour, number, digest, facts) for hour, (digest, facts) in self._waiting.items()]
        by_hour = table.files_by_hour(LOADS)
        self.warehouse.proofs(TOPIC).append(proofs)
        table.commit_publish(number=number, add=[file for hour in self._waiting for file in by_hour[hour]], remove=[])
        self._waiting = {}

    def maintain(self) -> None:
        began = time.perf_counter()
        settings = ExpirySettings(max_age_ms=0, min_snapshots=10, grace_ms=0)
        CompactJob(self.warehouse, TOPIC).run()
        merge_proofs(self.warehouse)
        ExpireJob(self.warehouse, TOPIC, settings).run()
        ExpireJob(self.warehouse, None, settings).run()
        self.maintenance_s += time.perf_counter() - began


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
    words = parser.parse_args()
    result = {"hours": words.hours, "with_maintenance": measure(words.hours, words.every)}
    if words.without:
        result["without"] = measure(words.hours, None)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
