"""Reads a topic and the producers' reports about it, with the client alone."""

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import ProducerReport
from headrace.audit.model.windows import WINDOW_MS
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.read_range import read_range
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.wire.batch.record_batch import Record, iter_records
from tests.support.told_by_producers import told


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


Identity = tuple[int, int, int, int, int, int | None]
"""Window start, partition, producer id, epoch, sequence, CRC of the batch."""


def acknowledged(reports: list[ProducerReport]) -> set[Identity]:
    """Return the records that the reports say the cluster acknowledged."""
    return {(start, *record) for (_, start), found in told(reports).items() for record in found.acknowledged}


def stored(cluster: Cluster, topic: str) -> list[Identity]:
    """Return each record in the log."""
    return [
        (
            record.timestamp_ms - record.timestamp_ms % WINDOW_MS,
            partition,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence + index,
            header.crc,
        )
        for partition in cluster.partitions(topic)
        for header, batch in read_range(cluster, topic, partition, 0, 1 << 62)
        for index, record in enumerate(iter_records(batch))
    ]
