"""Which metrics are counted and how the page shows them."""

import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.broker.metrics import LARGEST_BUCKET, UNKNOWN_API, BrokerMetrics, Durations
from headrace.broker.monitoring.group_lag import LagReading, LagSnapshot
from headrace.broker.monitoring.metrics_page import (
    PREFIX,
    TABLE,
    MetricsPage,
    Source,
    buckets,
    error_name,
    follower_lags,
    grouped,
    of_snapshot,
)
from headrace.broker.monitoring.metrics_snapshot import PartitionReading, Snapshot
from headrace.broker.monitoring.replication import ReplicationCounts
from headrace.broker.replicas.damage_book import DamageCounts
from headrace.runtime.logs import get_logger
from headrace.runtime.rate_limited_log import RateLimitedLog
from headrace.wire.messages import control
from headrace.wire.messages.answer_bytes import AnswerBytes

NO_LAG = LagSnapshot([], 0)


def reading(topic: str, partition: int, messages: int = 1) -> PartitionReading:
    return PartitionReading(topic, partition, messages, 10 * messages, 5, 100, 0, 100, 90, 60, 1, 7, False)


def snapshot(*partitions: PartitionReading) -> Snapshot:
    return Snapshot(list(partitions), 3, 11, 12, [("Stable", 2), ("Empty", 0), ("Stable", 1)])


def source(
    taken: Snapshot | None, metrics: BrokerMetrics | None = None, *, partitions_max: int = 100, lags: LagSnapshot = NO_LAG
) -> Source:
    return Source(
        broker_id=7,
        data=Path("/"),
        partitions_max=partitions_max,
        metrics=metrics or BrokerMetrics(),
        api_names={0: "Produce", UNKNOWN_API: "unknown"},
        accepted=lambda: 9,
        rejections=lambda: {"too_many_connections": 2, "malformed": 4},
        flushes=lambda: (Durations(), 1),
        cold_reads=lambda: (8, 8_000),
        session=lambda: ("unsure", 3),
        is_ready=lambda: False,
        snapshot=lambda: taken,
        group_lag=lambda: lags,
        tree_copied_at=lambda: 1_700_000_000.5,
        replication=lambda: ReplicationCounts(5, 4, 3, 2, 1, 6),
        damage=lambda: DamageCounts(1, 2, 3, 4, 5, 6),
        stopped_replicas=lambda: 7,
    )


def scraped(of: Source) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    page = MetricsPage(of)()
    assert page.status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page.body.decode())
        for sample in family.samples
    }


def labels(**values: str) -> frozenset[tuple[str, str]]:
    return frozenset(values.items())


def test_a_duration_is_counted_in_every_bucket_it_fits_into() -> None:
    durations = Durations()
    durations.add(1_000_000)  # 1 ms, below 2**20 ns
    durations.add(1 << 40, times=2)  # 18 minutes, beyond the last bucket
    bounds = dict(buckets(durations))
    assert bounds[2**19 / 1e9] == 0
    assert bounds[2**20 / 1e9] == 1
    assert bounds[math.inf] == durations.count == 3
    assert len(durations.buckets) == LARGEST_BUCKET + 1


def test_bounds_and_counts_ascend() -> None:
    durations = Durations()
    for power in range(45):
        durations.add(1 << power)
    shown = buckets(durations)
    assert [bound for bound, _ in shown] == sorted(bound for bound, _ in shown)
    assert [count for _, count in shown] == sorted(count for _, count in shown)
    assert shown[-1] == (math.inf, 45)


def test_the_page_shows_every_number_under_its_name() -> None:
    metrics = BrokerMetrics()
    metrics.api(0).latency.add(2_000_000, 5)
    metrics.api(0).error(2)
    metrics.api(UNKNOWN_API).error(35)
    metrics.parked_fetches = 6
    metrics.fetch_sessions, metrics.fetch_session_partitions, metrics.fetch_sessions_evicted = 2, 30, 1
    shown = scraped(source(snapshot(reading("clicks", 0, 4), reading("clicks", 1), reading("other", 0)), metrics))
    expected = {
        ("info", labels(version="0.1.0", broker_id="7")): 1,
        ("messages_in_total", labels(topic="clicks")): 5,
        ("bytes_in_total", labels(topic="clicks")): 50,
        ("bytes_out_total", labels(topic="other")): 5,
        ("partitions", labels(topic="clicks")): 2,
        ("high_watermark", labels(topic="clicks", partition="1")): 90,
        ("log_unflushed_bytes", labels(topic="clicks", partition="1")): 40,
        ("log_bad_ranges", labels()): 3,
        ("replicas_stopped", labels()): 7,
        ("recovery_cut_bytes", labels()): 21,
        ("requests_total", labels(api="Produce")): 5,
        ("request_duration_seconds_sum", labels(api="Produce")): 0.01,
        ("request_errors_total", labels(api="Produce", error="CORRUPT_MESSAGE")): 1,
        ("request_errors_total", labels(api="unknown", error="UNSUPPORTED_VERSION")): 1,
        ("connections", labels()): 3,
        ("connections_accepted_total", labels()): 9,
        ("connections_refused_total", labels(reason="too_many_connections")): 2,
        ("connections_refused_total", labels(reason="no_descriptors_left")): 0,
        ("frames_rejected_total", labels(reason="malformed")): 4,
        ("frames_rejected_total", labels(reason="size")): 0,
        ("request_bytes_in_flight", labels()): 11,
        ("response_bytes_in_flight", labels()): 12,
        ("fetches_parked", labels()): 6,
        ("fetch_sessions", labels()): 2,
        ("fetch_session_partitions", labels()): 30,
        ("fetch_sessions_evicted_total", labels()): 1,
        ("cold_fetches_total", labels()): 8,
        ("cold_read_bytes_total", labels()): 8_000,
        ("groups", labels(state="Stable")): 2,
        ("group_members", labels()): 3,
        ("zookeeper_session", labels(state="unsure")): 1,
        ("zookeeper_session", labels(state="sure")): 0,
        ("zookeeper_sessions_lost_total", labels()): 3,
        ("zookeeper_copy_timestamp_seconds", labels()): 1_700_000_000.5,
        ("log_flush_failures_total", labels()): 1,
        ("ready", labels()): 0,
        ("loop_answered", labels()): 1,
    }
    for (name, wanted), value in expected.items():
        assert shown[PREFIX + name, wanted] == pytest.approx(value), name
    assert shown["process_resident_memory_bytes", labels()] > 0


def test_a_loop_that_does_not_answer_leaves_out_its_own_and_says_so() -> None:
    shown = scraped(source(None))
    assert shown[PREFIX + "loop_answered", labels()] == 0
    names = {name for name, _ in shown}
    assert PREFIX + "messages_in_total" not in names
    assert PREFIX + "connections_accepted_total" in names


def test_beyond_the_bound_partitions_are_summed_by_topic_and_topics_among_the_rest() -> None:
    readings = [reading(f"topic-{number}", partition) for number in range(5) for partition in range(2)]
    shown = scraped(source(snapshot(*readings), partitions_max=3))
    assert shown[PREFIX + "log_end_offset", labels(topic="topic-0", partition="")] == 200
    assert shown[PREFIX + "messages_in_total", labels(topic="topic-2")] == 2
    assert shown[PREFIX + "messages_in_total", labels(topic="")] == 4
    assert (PREFIX + "messages_in_total", labels(topic="topic-3")) not in shown
    assert list(grouped(readings, 0)) == [""]


def test_the_bound_is_reached_by_one_partition_too_many() -> None:
    three = [reading("t", number) for number in range(3)]
    assert len(of_snapshot(snapshot(*three), 3)["log_size_bytes"]) == 3
    assert len(of_snapshot(snapshot(*three), 2)["log_size_bytes"]) == 1


def test_groups_are_shown_by_partition_up_to_the_bound_then_by_topic_then_together() -> None:
    lags = LagSnapshot([LagReading(f"g{n}", "t", partition, 10) for n in range(5) for partition in range(2)], 7)
    name = PREFIX + "group_lag_bytes"
    shown = scraped(source(None, partitions_max=10, lags=lags))
    assert shown[name, labels(group="g4", topic="t", partition="1")] == 10
    assert shown[PREFIX + "group_lag_left_out", labels()] == 7
    shown = scraped(source(None, partitions_max=9, lags=lags))
    assert shown[name, labels(group="g4", topic="t", partition="")] == 20
    shown = scraped(source(None, partitions_max=3, lags=lags))
    assert shown[name, labels(group="g2", topic="t", partition="")] == 20
    assert shown[name, labels(group="", topic="", partition="")] == 40
    assert sum(value for (one, _), value in shown.items() if one == name) == 100, "every byte is in one series"


def test_names_follow_prometheus_rules() -> None:
    for name, (kind, label_names, doc) in TABLE.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert kind != "histogram" or name.endswith("_seconds"), name
        assert doc.endswith("."), name
        assert not any(word in name for word in ("_ms", "_mb", "count")), name
        assert name == name.lower()
        assert "le" not in label_names


def test_an_unknown_error_code_keeps_its_number() -> None:
    assert (error_name(35), error_name(12_345)) == ("UNSUPPORTED_VERSION", "12345")


def test_an_answer_remembers_its_errors_however_deep() -> None:
    message = {
        "throttle_time_ms": 0,
        "topics": [
            {
                "name": "t",
                "partitions": [{"partition_index": index, "error_code": error} for index, error in enumerate((0, 16, 16))],
            }
        ],
    }
    answer = control.encode_response(8, 2, message)
    assert isinstance(answer, AnswerBytes)
    assert answer.errors == (16, 16)
    message["topics"] = []
    assert type(control.encode_response(8, 2, message)) is bytes


def test_what_is_left_out_of_the_log_is_counted_all_the_same() -> None:
    log = RateLimitedLog(get_logger("test"), lambda: 5)
    for _ in range(1_000):
        log.warning("frame_refused", peer="somebody")
    log.warning("frame_refused", peer="somebody", reason="size")
    assert log.counts == {"frame_refused": 1_000, "size": 1}


def test_followers_are_shown_by_partition_as_long_as_there_are_few_enough() -> None:
    behind = [reading("a", index)._replace(follower_lags={2: 10, 3: 20 * index}) for index in range(2)]
    assert follower_lags(behind, 4) == {("a", "0", "2"): 10, ("a", "0", "3"): 0, ("a", "1", "2"): 10, ("a", "1", "3"): 20}
    assert follower_lags(behind, 3) == {("a", "", "2"): 20, ("a", "", "3"): 20}
    assert follower_lags([*behind, reading("b", 0)._replace(follower_lags={2: 1})], 2)[("", "", "")] == 1
