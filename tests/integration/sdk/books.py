"""Reads a topic and the producers' reports about it, with the client alone."""

from collections import Counter

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import ProducerReport
from headrace.audit.model.windows import WINDOW_MS
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.read_range import read_range
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.wire.batch.record_batch import Record, iter_records


def records_of(cluster: Cluster, topic: str) -> list[Record]:
    return [
        record
        for partition in cluster.partitions(topic)
        for _, batch in read_range(cluster, topic, partition, 0, 1 << 62)
        for record in iter_records(batch)
    ]


def reports_of(cluster: Cluster, topic: str) -> list[ProducerReport]:
    """Return the producers' reports that are about the topic, in the audit topic's order."""
    reports = [decode(record.value) for record in records_of(cluster, AUDIT_TOPIC)]
    return [report for report in reports if isinstance(report, ProducerReport) and topic in report.topics]


def acknowledged(reports: list[ProducerReport]) -> dict[tuple[int, int], int]:
    """Return (window start, partition) → acknowledged; a later report of a run replaces an earlier one."""
    newest: dict[tuple[str, int, str, int], dict[int, int]] = {}
    for report in reports:
        for window in report.windows:
            newest[report.instance, report.epoch, window.topic, window.window_start_ms] = dict(window.counts)
    sums: Counter[tuple[int, int]] = Counter()
    for (_, _, _, start_ms), counts in newest.items():
        for partition, count in counts.items():
            sums[start_ms, partition] += count
    return dict(sums)


def stored(cluster: Cluster, topic: str) -> dict[tuple[int, int], int]:
    """Return (window start, partition) → records in the log."""
    sums: Counter[tuple[int, int]] = Counter()
    for partition in cluster.partitions(topic):
        for _, batch in read_range(cluster, topic, partition, 0, 1 << 62):
            for record in iter_records(batch):
                sums[record.timestamp_ms - record.timestamp_ms % WINDOW_MS, partition] += 1
    return dict(sums)
