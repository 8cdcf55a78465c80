"""The count: reports the warehouse's rows to the audit, by counting the files of each load that is not reported yet.

The tier is `warehouse`. A crash between the report and storing that it was made repeats the report; the audit recognises a
repetition.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from ...audit.model.messages import RangeWindow
from ...audit.model.tiers import WAREHOUSE
from ...audit.publisher import RangeReporter, ReportSender
from ...client.connection.cluster import Cluster
from ...client.producer.producer import Producer
from ...runtime.layout import Layout
from ...runtime.logs import get_logger
from ..warehouse.topic_table import LoadSnapshot, TopicTable
from ..warehouse.warehouse import Warehouse
from ..warehouse.written_counts import count_written

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountOutcome:
    """What was reported."""

    topic: str
    load_count: int = 0
    row_count: int = 0
    quarantined_count: int = 0
    window_count: int = 0


class _TablePositions:
    """The reporter's store of positions: it stores nothing.

    The table itself records what is reported, a whole load at a time.
    """

    def read(self, tier: str, topic: str, partition: int, /) -> int | None:
        return None

    def write(self, tier: str, topic: str, partition: int, offset: int, /) -> None:
        return None


def count_and_report(warehouse: Warehouse, topic: str, sender: ReportSender, *, instance: str) -> CountOutcome:
    """Report every load of the topic that has not been reported, oldest first. Without a table there is nothing to do.

    Raises ReportNotSent (earlier reports remain sent), WarehouseError.
    """
    table = warehouse.table(topic)
    if table is None:
        return CountOutcome(topic=topic)
    reporter = RangeReporter(tier=WAREHOUSE, instance=instance, sender=sender, positions=_TablePositions())
    rows, quarantined, windows = 0, 0, set[int]()
    loads = table.snapshots_to_report()
    for load in loads:
        for partition, found in _windows(table, load).items():
            one = next(one for one in load.ranges if one.partition == partition)
            reporter.report(topic, partition, one.from_offset, one.to_offset, found)
            rows += sum(window.count for window in found.values())
            quarantined += sum(window.quarantined for window in found.values())
            windows.update(found)
        table.set_reported(load.snapshot_id)
        log.info("load_reported", topic=topic, run=load.run, snapshot_id=load.snapshot_id, rows=rows, quarantined=quarantined)
    return CountOutcome(
        topic=topic, load_count=len(loads), row_count=rows, quarantined_count=quarantined, window_count=len(windows)
    )


def _windows(table: TopicTable, load: LoadSnapshot) -> Mapping[int, Mapping[int, RangeWindow]]:
    """Return every partition of the load → window → its counts; a partition without rows has no windows."""
    written = count_written(table.files_added_by(load.snapshot_id), load.ranges)
    found = {}
    for one in load.ranges:
        counts = written.get(one.partition, {})
        aside = load.quarantined.get(one.partition, {})
        found[one.partition] = {
            start: RangeWindow(count=counts.get(start, 0), quarantined=aside.get(start, 0))
            for start in sorted(counts.keys() | aside.keys())
        }
    return found


def run_count(layout: Layout, topic: str) -> CountOutcome:
    """Count and report one topic of a local platform. Raises the client's errors if the live cluster is away."""
    warehouse = Warehouse(layout.warehouse)
    table = warehouse.table(topic)
    if table is None or not table.snapshots_to_report():
        return CountOutcome(topic=topic)
    cluster = Cluster(layout.live_bootstrap, client_id="headrace-count")
    producer = Producer(cluster)
    try:
        return count_and_report(warehouse, topic, producer, instance=f"{socket.gethostname()}/load/{os.getpid()}")
    finally:
        producer.close(0)
        cluster.close()
