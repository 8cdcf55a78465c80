"""The `/metrics` page: every metric of the broker with its name and description, made from the counters on each scrape.

Names follow Prometheus' rules: one prefix, base units, `_total` on counters, sums over labels have a meaning. The terms are
Kafka's (`docs/BROKER.md` lists the JMX names). Bounded: above `metrics.partitions.max` partitions, metrics are per topic; above
as many topics, the remaining ones are summed under an empty label."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ... import __version__
from ...runtime.monitoring.http_server import Page
from ...runtime.monitoring.process_metrics import process_metrics
from ...runtime.monitoring.text_format import CONTENT_TYPE, Histogram, Metric, text
from ...wire.errors import ErrorCode
from ..metrics import BrokerMetrics, Durations
from ..replicas.damage_book import DamageCounts
from .group_lag import LagSnapshot
from .metrics_snapshot import PartitionReading, Snapshot
from .replication import ReplicationCounts

PREFIX = "headrace_broker_"
CONNECTION_REASONS = ("accept_failed", "no_descriptors_left", "too_many_connections")
"""Events in which a connection is refused when it is opened. Every other event is about a frame or an open connection."""
FRAME_REASONS = (
    "acks_0",
    "answer_cut",
    "malformed",
    "not_served",
    "request_too_slow",
    "size",
    "unfinished_requests_too_large",
    "unread_answers_too_large",
)
"""Shown from the start, at 0, so that the first event shows in a rate. Other reasons may be added."""
_FINEST, _COARSEST = 13, 34
"""Buckets shown: from 2**13 ns (8 µs) to 2**34 ns (17 s)."""


class Family(NamedTuple):
    """One line of the page's table."""

    kind: str
    labels: tuple[str, ...]
    doc: str


TABLE: Mapping[str, Family] = {
    "info": Family("gauge", ("version", "broker_id"), "Always 1. The labels identify this broker."),
    "ready": Family("gauge", (), "1 while /readyz answers 200."),
    "loop_answered": Family(
        "gauge", (), "1 if the event loop answered this scrape in time. 0: the metrics of the loop are missing."
    ),
    "loop_lag_seconds": Family("histogram", (), "Delay of the event loop's timers: the minimum wait of every request."),
    "messages_in_total": Family("counter", ("topic",), "Records appended."),
    "bytes_in_total": Family("counter", ("topic",), "Bytes of record batches appended, as stored."),
    "bytes_out_total": Family("counter", ("topic",), "Bytes of record batches sent to fetches."),
    "cold_fetches_total": Family("counter", (), "Fetches that waited for the disk, because the data was not in the page cache."),
    "cold_read_bytes_total": Family("counter", (), "Bytes read from the disk for them."),
    "requests_total": Family("counter", ("api",), "Requests answered."),
    "request_duration_seconds": Family(
        "histogram", ("api",), "Time from the complete request to the complete response, including the wait of a parked fetch."
    ),
    "request_errors_total": Family("counter", ("api", "error"), "Error codes in responses. Each code of a response counts."),
    "partitions": Family("gauge", ("topic",), "Partitions that this broker keeps a replica of."),
    "leaders": Family("gauge", (), "Partitions that this broker leads."),
    "under_replicated_partitions": Family("gauge", (), "Of them, those that have not all their replicas in sync."),
    "under_min_insync_partitions": Family(
        "gauge", (), "Of them, those with fewer replicas in sync than min.insync.replicas: acks=all is not acknowledged."
    ),
    "offline_partitions": Family("gauge", (), "Partitions of the whole cluster that no live broker leads."),
    "preferred_replica_imbalance": Family(
        "gauge", (), "Partitions of the whole cluster that another broker leads than the preferred one."
    ),
    "leader_changes_total": Family("counter", (), "Leader epochs begun in the whole cluster, as this broker saw them."),
    "follower_lag_bytes": Family(
        "gauge", ("topic", "partition", "follower"), "Bytes of a partition led here that the follower has not acknowledged."
    ),
    "log_size_bytes": Family("gauge", ("topic", "partition"), "Size of the log's files."),
    "log_start_offset": Family("gauge", ("topic", "partition"), "First offset that can be fetched."),
    "log_end_offset": Family("gauge", ("topic", "partition"), "Position of the next batch."),
    "high_watermark": Family("gauge", ("topic", "partition"), "End of what consumers see."),
    "log_unflushed_bytes": Family("gauge", ("topic", "partition"), "Bytes in the log that are not flushed."),
    "log_flush_duration_seconds": Family("histogram", (), "Time of each flush of a log."),
    "log_flush_failures_total": Family("counter", (), "Failed flushes. The log then accepts no more appends."),
    "logs_failed": Family("gauge", (), "Logs that accept no more appends."),
    "log_bad_ranges": Family("gauge", (), "Damaged ranges in logs, which are never served."),
    "replicas_stopped": Family("gauge", (), "Replicas that neither copy nor lead: the disk refused an order. The log says why."),
    "log_damaged_ranges": Family("gauge", (), "Damaged ranges of replicas that wait for their repair. Readers wait there, too."),
    "log_undecided_ranges": Family("gauge", (), "Ranges in which replicas differ, and no bytes have a majority."),
    "log_repaired_ranges_total": Family("counter", (), "Ranges of replicas that were repaired from another one."),
    "log_repaired_records_total": Family("counter", (), "Records in them."),
    "log_scrubbed_bytes_total": Family("counter", (), "Bytes of the logs led here that were compared with the other replicas."),
    "log_scrub_rounds_total": Family("counter", (), "Comparisons of all logs led here that came to their end."),
    "recovery_cut_bytes": Family("gauge", (), "Bytes of torn tails that were cut when the logs were opened."),
    "data_free_bytes": Family("gauge", (), "Free bytes on the file system of the data folder."),
    "connections": Family("gauge", (), "Open connections."),
    "connections_accepted_total": Family("counter", (), "Connections accepted."),
    "connections_refused_total": Family("counter", ("reason",), "Connections refused when they were opened."),
    "frames_rejected_total": Family("counter", ("reason",), "Requests that closed their connection."),
    "fetches_parked": Family("gauge", (), "Fetches that wait for data."),
    "fetch_sessions": Family("gauge", (), "Fetch sessions (KIP-227)."),
    "fetch_session_partitions": Family("gauge", (), "Partitions of all fetch sessions together."),
    "fetch_sessions_evicted_total": Family("counter", (), "Fetch sessions that made room for another one."),
    "access_rules": Family("gauge", (), "Access rules (ACLs) in force. Absent without an authorizer."),
    "access_denied_total": Family("counter", ("operation", "resource"), "Rights that clients asked for and do not have."),
    "access_events_left_out_total": Family("counter", (), "Events that were too many for the trail of access."),
    "throttles_total": Family("counter", (), "Connections muted, because their client used more than its quota."),
    "request_bytes_in_flight": Family("gauge", (), "Memory of incomplete requests."),
    "response_bytes_in_flight": Family("gauge", (), "Response bytes that clients have not read, including file data."),
    "groups": Family("gauge", ("state",), "Consumer groups by state."),
    "group_members": Family("gauge", (), "Members of all groups."),
    "group_lag_bytes": Family(
        "gauge", ("group", "topic", "partition"), "Bytes between a group's committed offset and the end of what consumers see."
    ),
    "group_lag_left_out": Family("gauge", (), "Committed offsets that are not read for the lag, because there are too many."),
    "zookeeper_session": Family("gauge", ("state",), "1 for the state of the session: sure, unsure or lost."),
    "zookeeper_sessions_lost_total": Family("counter", (), "Sessions that ended unexpectedly."),
    "zookeeper_copy_timestamp_seconds": Family("gauge", (), "When the tree was last copied into the data folder."),
}
"""Every metric except those that each process has (`process_metrics`), without the prefix."""


class Source(NamedTuple):
    """The sources of the page's numbers."""

    broker_id: int
    data: Path
    partitions_max: int
    metrics: BrokerMetrics
    api_names: Mapping[int, str]
    accepted: Callable[[], int]
    rejections: Callable[[], Mapping[str, int]]
    flushes: Callable[[], tuple[Durations, int]]
    """Durations of flushes, and how many failed."""
    cold_reads: Callable[[], tuple[int, int]]
    """Cold fetches, and their bytes."""
    session: Callable[[], tuple[str, int]]
    """The ZooKeeper session's state, and how many were lost."""
    is_ready: Callable[[], bool]
    snapshot: Callable[[], Snapshot | None]
    group_lag: Callable[[], LagSnapshot]
    tree_copied_at: Callable[[], float | None]
    replication: Callable[[], ReplicationCounts]
    damage: Callable[[], DamageCounts]
    stopped_replicas: Callable[[], int]


Samples = Mapping[str, list[tuple[tuple[str, ...], float | Durations]]]
"""By name: label values and value."""


class MetricsPage:
    """Made once, called on one thread."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __call__(self) -> Page:
        return Page(200, CONTENT_TYPE, text([*process_metrics("broker"), *self._families()]).encode())

    def _families(self) -> Iterator[Metric]:
        """Yield the families in the table's order."""
        source = self._source
        samples = {
            **of_process(source),
            **of_snapshot(source.snapshot(), source.partitions_max),
            **of_groups(source.group_lag(), source.partitions_max),
            **of_replication(source.replication()),
            **of_damage(source.damage()),
        }
        for name, (kind, labels, doc) in TABLE.items():
            if name in samples:
                shown = [(dict(zip(labels, values, strict=True)), _shown(value)) for values, value in samples[name]]
                yield Metric(PREFIX + name, kind, doc, shown)


def _shown(value: float | Durations) -> float | Histogram:
    return Histogram(buckets(value), value.sum_ns / 1e9) if isinstance(value, Durations) else value


def of_process(source: Source) -> Samples:
    """Return the metrics that may be read at any time, even while the loop hangs."""
    metrics = source.metrics
    asked = [(source.api_names.get(key, str(key)), api) for key, api in list(metrics.apis.items()) if api.latency.count]
    refusals = dict(source.rejections())
    frames = {*FRAME_REASONS, *refusals} - {*CONNECTION_REASONS}
    flushes, failed_flushes = source.flushes()
    cold_fetches, cold_bytes = source.cold_reads()
    state, lost = source.session()
    disk = os.statvfs(source.data)
    copied_at = source.tree_copied_at()
    return {
        "info": [((__version__, str(source.broker_id)), 1)],
        "replicas_stopped": [((), source.stopped_replicas())],
        "ready": [((), float(source.is_ready()))],
        "loop_lag_seconds": [((), metrics.loop_lag)],
        "cold_fetches_total": [((), cold_fetches)],
        "cold_read_bytes_total": [((), cold_bytes)],
        "requests_total": [((name,), api.latency.count) for name, api in asked],
        "request_duration_seconds": [((name,), api.latency) for name, api in asked],
        "request_errors_total": [
            ((source.api_names.get(key, str(key)), error_name(code)), count)
            for key, api in list(metrics.apis.items())
            for code, count in list(api.errors.items())
        ],
        "log_flush_duration_seconds": [((), flushes)],
        "log_flush_failures_total": [((), failed_flushes)],
        "data_free_bytes": [((), disk.f_bavail * disk.f_frsize)],
        "connections_accepted_total": [((), source.accepted())],
        "connections_refused_total": [((one,), refusals.get(one, 0)) for one in CONNECTION_REASONS],
        "frames_rejected_total": [((one,), refusals.get(one, 0)) for one in sorted(frames)],
        "fetches_parked": [((), metrics.parked_fetches)],
        "fetch_sessions": [((), metrics.fetch_sessions)],
        "fetch_session_partitions": [((), metrics.fetch_session_partitions)],
        "fetch_sessions_evicted_total": [((), metrics.fetch_sessions_evicted)],
        **({} if metrics.access_rules is None else {"access_rules": [((), metrics.access_rules)]}),
        "access_denied_total": [(key, count) for key, count in list(metrics.access_denied.items())],
        "access_events_left_out_total": [((), metrics.access_events_left_out)],
        "throttles_total": [((), metrics.throttles)],
        "zookeeper_session": [((one,), float(one == state)) for one in ("sure", "unsure", "lost")],
        "zookeeper_sessions_lost_total": [((), lost)],
        **({} if copied_at is None else {"zookeeper_copy_timestamp_seconds": [((), copied_at)]}),
    }


def of_snapshot(snapshot: Snapshot | None, partitions_max: int) -> Samples:
    """Return the metrics in a snapshot of the loop's state. Pure."""
    if snapshot is None:
        return {"loop_answered": [((), 0)]}
    partitions = snapshot.partitions
    by_topic = grouped(partitions, partitions_max)
    logs = (
        by_partition(partitions) if len(partitions) <= partitions_max else [((topic, ""), of) for topic, of in by_topic.items()]
    )
    states: dict[str, int] = {}
    for state, _ in snapshot.groups:
        states[state] = states.get(state, 0) + 1

    def of_topics(value: Callable[[PartitionReading], int]) -> list[tuple[tuple[str, ...], float | Durations]]:
        return [((topic,), sum(map(value, readings))) for topic, readings in by_topic.items()]

    def of_logs(value: Callable[[PartitionReading], int]) -> list[tuple[tuple[str, ...], float | Durations]]:
        return [(labels, sum(map(value, readings))) for labels, readings in logs]

    return {
        "loop_answered": [((), 1)],
        "messages_in_total": of_topics(lambda one: one.messages_in),
        "bytes_in_total": of_topics(lambda one: one.bytes_in),
        "bytes_out_total": of_topics(lambda one: one.bytes_out),
        "partitions": of_topics(lambda one: 1),
        "log_size_bytes": of_logs(lambda one: one.size_bytes),
        "log_start_offset": of_logs(lambda one: one.start_offset),
        "log_end_offset": of_logs(lambda one: one.end_offset),
        "high_watermark": of_logs(lambda one: one.high_watermark),
        "log_unflushed_bytes": of_logs(lambda one: one.end_offset - one.flushed_offset),
        "follower_lag_bytes": list(follower_lags(partitions, partitions_max).items()),
        "logs_failed": [((), sum(one.has_failed for one in partitions))],
        "log_bad_ranges": [((), sum(one.bad_ranges for one in partitions))],
        "recovery_cut_bytes": [((), sum(one.cut_bytes for one in partitions))],
        "connections": [((), snapshot.connections)],
        "request_bytes_in_flight": [((), snapshot.input_bytes)],
        "response_bytes_in_flight": [((), snapshot.output_bytes)],
        "groups": [((state,), count) for state, count in sorted(states.items())],
        "group_members": [((), sum(members for _, members in snapshot.groups))],
    }


def of_replication(counts: ReplicationCounts) -> Samples:
    """Return what is wrong with the cluster's partitions. Pure."""
    return {
        "leaders": [((), counts.leaders)],
        "under_replicated_partitions": [((), counts.under_replicated)],
        "under_min_insync_partitions": [((), counts.under_min_insync)],
        "offline_partitions": [((), counts.offline)],
        "preferred_replica_imbalance": [((), counts.led_elsewhere)],
        "leader_changes_total": [((), counts.leader_changes)],
    }


def follower_lags(partitions: Sequence[PartitionReading], series_max: int) -> dict[tuple[str, ...], float]:
    """Return how far followers are behind: at most `series_max` series by partition, else by topic, else all in one. Pure."""
    count = sum(len(one.follower_lags) for one in partitions)
    lags: dict[tuple[str, ...], float] = {}
    for one in partitions:
        for follower, lag in one.follower_lags.items():
            key = (one.topic, str(one.partition) if count <= series_max else "", str(follower))
            key = key if key in lags or len(lags) < series_max else ("", "", "")
            lags[key] = lags.get(key, 0) + lag
    return lags


def of_groups(taken: LagSnapshot, series_max: int) -> Samples:
    """Return how far groups are behind: at most `series_max` series by partition, else by topic, else the rest in one. Pure."""
    lags: dict[tuple[str, ...], float] = {(one.group, one.topic, str(one.partition)): one.lag_bytes for one in taken.lags}
    if len(lags) > series_max:
        lags = {}
        for one in taken.lags:
            key = (one.group, one.topic, "")
            key = key if key in lags or len(lags) < series_max else ("", "", "")
            lags[key] = lags.get(key, 0) + one.lag_bytes
    return {"group_lag_bytes": list(lags.items()), "group_lag_left_out": [((), taken.left_out)]}


def grouped(partitions: Iterable[PartitionReading], topics_max: int) -> dict[str, list[PartitionReading]]:
    """Return the partitions by topic. Beyond the first `topics_max` topics, the others are together under an empty name."""
    by_topic: dict[str, list[PartitionReading]] = {}
    for one in partitions:
        topic = one.topic if one.topic in by_topic or len(by_topic) < topics_max else ""
        by_topic.setdefault(topic, []).append(one)
    return by_topic


def by_partition(partitions: Iterable[PartitionReading]) -> list[tuple[tuple[str, str], list[PartitionReading]]]:
    return [((one.topic, str(one.partition)), [one]) for one in partitions]


def buckets(durations: Durations) -> list[tuple[float, float]]:
    """Return upper bounds in seconds and cumulative counts, as in the exposition format."""
    counts = list(durations.buckets)
    shown, so_far = [], sum(counts[:_FINEST])
    for power in range(_FINEST, _COARSEST + 1):
        so_far += counts[power]
        shown.append((2**power / 1e9, float(so_far)))
    return [*shown, (math.inf, float(so_far + sum(counts[_COARSEST + 1 :])))]


def error_name(code: int) -> str:
    """Return the error's name in Kafka's table."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def of_damage(counts: DamageCounts) -> Samples:
    """Return what is damaged and repaired in replicas. Pure."""
    return {
        "log_damaged_ranges": [((), counts.damaged_ranges)],
        "log_undecided_ranges": [((), counts.undecided_ranges)],
        "log_repaired_ranges_total": [((), counts.repaired_ranges)],
        "log_repaired_records_total": [((), counts.repaired_records)],
        "log_scrubbed_bytes_total": [((), counts.compared_bytes)],
        "log_scrub_rounds_total": [((), counts.rounds)],
    }
