"""The table of targets against figures: ratios, the client-bound rule, rows that could not be measured."""

import pytest

from bench.report import judges, targets
from tests.support.bench_results import rate, result, row


def _outcome(what: str, **measures: list[dict[str, object]]) -> targets.TargetOutcome:
    found = targets.verdicts(targets.medians_of(result(**measures)["measures"]))
    return next(one for one in found if one.what == what)


def test_a_row_is_reached_at_its_ratio_and_missed_below_it() -> None:
    shape = "batch 50, acks 1"
    for ours, reached in ((1_200_000, True), (1_190_000, False)):
        verdict = _outcome(
            "produce, batch 50, acks 1", produce=[row("Headrace", shape, rate(ours)), row("Kafka", shape, rate(1_000_000))]
        )
        assert verdict.reached is reached
        assert f"{ours / 1e6:.2f} ×" in verdict.found


def test_where_the_client_is_busy_the_servers_cpu_decides() -> None:
    shape = "batch default, acks 1"
    kafka = row("Kafka", shape, rate(1_000_000, cpu=1.0))
    what = "produce, batch default, acks 1"
    assert _outcome(what, produce=[row("Headrace", shape, rate(1e6, cpu=0.6, client=0.95)), kafka]).reached is True
    assert _outcome(what, produce=[row("Headrace", shape, rate(1e6, cpu=0.61, client=0.95)), kafka]).reached is False
    assert _outcome(what, produce=[row("Headrace", shape, rate(1e6, cpu=0.1, client=0.94)), kafka]).reached is False
    assert _outcome(what, produce=[row("Headrace", shape, rate(1.2e6, cpu=2.0, client=1.3)), kafka]).reached is True


def test_a_row_whose_peer_is_missing_is_neither_reached_nor_missed() -> None:
    verdict = _outcome("produce, batch 50, beside ActiveMQ", produce=[row("Headrace", "batch 50, acks 1", rate(1e6))])
    assert verdict.reached is None
    assert verdict.found == "not measured: ActiveMQ, its own"


def test_a_row_of_a_case_that_failed_is_not_measured() -> None:
    failed = row("Headrace", "10 GB", failed="it did not start")
    assert _outcome("restart after kill -9 with 10 GB of log", restart=[failed]).reached is None


def test_cpu_has_a_limit_of_its_own_and_one_beside_kafka() -> None:
    what, shape = "CPU a million messages, produce 50 a batch", "batch 50, acks 1"
    for ours, kafka, reached in ((0.4, 0.8, True), (0.41, 2.0, False), (0.4, 0.7, False)):
        rows = [row("Headrace", shape, rate(1e6, cpu=ours)), row("Kafka", shape, rate(1e6, cpu=kafka))]
        assert _outcome(what, produce=rows).reached is reached


def test_growth_compares_the_far_end_with_the_near_one() -> None:
    rows = [row("Headrace", "10 partitions", rate(1e6)), row("Headrace", "10,000 partitions", rate(7e5))]
    assert _outcome("10 partitions → 10,000 partitions", growth=rows).reached is True


def test_what_the_machine_takes_alone_is_told_beside_a_row_and_judges_nothing() -> None:
    growth = [row("Headrace", "10 partitions", rate(1e6)), row("Headrace", "10,000 partitions", rate(6e5))]
    files = [row("bare files", "10 partitions", rate(4e6)), row("bare files", "10,000 partitions", rate(2e6))]
    verdict = _outcome("10 partitions → 10,000 partitions", growth=growth + files)
    assert (verdict.reached, verdict.found) == (False, "0.60 (600 k against 1 M); writes to as many files, alone: 0.50")

    shape = "10,000 a second"
    latency = [row(name, shape, {"p50_ms": ms}) for name, ms in (("Headrace", 0.5), ("Kafka", 0.8), ("bare broker", 0.25))]
    verdict = _outcome("latency produce → consume at 10 k msg/s, p50", latency=latency)
    assert (verdict.reached, verdict.found) == (False, "0.62 × (0.50 against 0.80 ms); a broker that only hands on: 0.25 ms")

    shape = "batches of 50, 1 MB"
    consume = [row("Headrace", shape, rate(2e6, cpu=0.1)), row("Kafka", shape, rate(1e6, cpu=0.25))]
    bare = [row("bare loop", "fetching, 1 MB a fetch", {"server_cpu_s_per_gb": 0.4})]
    verdict = _outcome("CPU a million messages, consume, 1 MB fetches", consume=consume, bare=bare)
    assert (verdict.reached, verdict.found) == (False, "0.100 s/M, 0.40 × Kafka; a bare sendfile loop: 0.084 s")


@pytest.mark.parametrize(
    ("what", "shape", "ours", "other", "its_shape"),
    [
        (
            "produce, batch 50, acks 1",
            "produce",
            ("batch 50, acks 1", rate(152247.41858697627)),
            ("Kafka", rate(126872.84882248024)),
            "batch 50, acks 1",
        ),
        (
            "produce, batch 50, acks 1",
            "produce",
            ("batch 50, acks 1", rate(1, cpu=113446.46328657617, client=1)),
            ("Kafka", rate(1, cpu=189077.43881096027)),
            "batch 50, acks 1",
        ),
        (
            "produce, batch 50, beside Redis Streams",
            "produce",
            ("batch 50, acks 1", rate(619860.849531228)),
            ("Redis Streams", rate(177103.09986606514)),
            "its own",
        ),
        (
            "fetch MB/s against a bare sendfile loop",
            "bare",
            ("fetching, 1 MB a fetch", {"mb_per_s": 88946.40270570377}),
            ("bare loop", {"mb_per_s": 104642.82671259268}),
            "fetching, 1 MB a fetch",
        ),
        (
            "10 partitions → 10,000 partitions",
            "growth",
            ("10,000 partitions", rate(106519.897959262)),
            ("Headrace", rate(152171.28279894573)),
            "10 partitions",
        ),
        (
            "acknowledged on disk, 64 in flight, beside Kafka with flush.messages=1",
            "durable",
            ("acknowledged on disk", rate(737516.4500713908)),
            ("Kafka", rate(147503.29001427817)),
            "acknowledged on disk",
        ),
    ],
)
def test_a_ratio_that_only_division_rounds_to_its_bar_is_missed(
    what: str, shape: str, ours: tuple[str, dict[str, float]], other: tuple[str, dict[str, float]], its_shape: str
) -> None:
    rows = [row("Headrace", *ours), row(other[0], its_shape, other[1])]
    assert _outcome(what, **{shape: rows}).reached is False


def test_a_figure_that_is_printed_like_its_bar_is_missed_when_it_is_beyond() -> None:
    limits = (
        ("footprint", "memory when idle", "start to first accepted produce", {"rss_mb": 60.0001}),
        ("footprint", "start to first accepted produce", "start to first accepted produce", {"seconds": 0.70001}),
        ("restart", "restart after kill -9 with 10 GB of log", "10 GB", {"seconds": 2.0001}),
        ("produce", "CPU a million messages, produce 50 a batch", "batch 50, acks 1", {"server_cpu_s_per_million": 0.40001}),
    )
    for measure, what, shape, figures in limits:
        assert _outcome(what, **{measure: [row("Headrace", shape, figures)]}).reached is False


def test_storage_overhead_is_judged_to_the_byte() -> None:
    messages = 1_000_000
    exact = messages * 209 + messages // 50 * 61
    for disk_bytes, reached, words in ((exact, True, "10.22 bytes"), (exact + 1, False, "10.22 bytes, 1e-06 more than that")):
        run = {"disk_bytes": disk_bytes, "messages": messages, "disk_bytes_per_message": disk_bytes / messages}
        shape = row("Headrace", "batch 50, acks 1", run)
        verdict = _outcome("storage overhead a message at 50 a batch", produce=[shape])
        assert (verdict.reached, verdict.found) == (reached, words)


def test_every_row_of_the_table_is_there_once_and_unmeasured_without_figures() -> None:
    found = targets.verdicts({})
    assert len(found) >= 34
    assert len({one.what for one in found}) == len(found)
    assert {one.reached for one in found} == {None}
    assert targets.summary(found) == f"0 rows reached, 0 not reached, {len(found)} not measured"


@pytest.mark.parametrize(
    ("value", "words"), [(1_310_000, "1.31 M"), (161_400, "161 k"), (940, "940"), (0.25, "0.25"), (4_000_000_000, "4,000 M")]
)
def test_rates_are_written_in_three_figures(value: float, words: str) -> None:
    assert judges.rate(value) == words


def test_a_ratio_over_nothing_is_infinite() -> None:
    assert judges.ratio(1, 0) == float("inf")


def test_an_event_that_is_logged_is_judged_beside_confluent_kafka_and_by_the_callers_wait() -> None:
    tight, paced = "one after another", "1,000 a second"
    sdk = [
        row("EventLogger, Python", tight, {"in_all_us": 12.0}),
        row("EventLogger, native", tight, {"in_all_us": 5.1}),
        row("confluent-kafka, AvroSerializer", tight, {"in_all_us": 20.0}),
        row("EventLogger, native", paced, {"p50_us": 4.0, "p99_us": 20.1}),
    ]
    assert _outcome("an event logged, processor time in all: EventLogger, Python", sdk=sdk).reached is True
    assert _outcome("an event logged, processor time in all: EventLogger, native", sdk=sdk).reached is False
    for label, reached in (("p50", True), ("p99", False), ("p99.9", None)):
        what = f"an event logged at 1,000 a second, the caller's {label}: EventLogger, native"
        assert _outcome(what, sdk=sdk).reached is reached


def test_a_mirror_is_judged_beside_mirrormaker_by_its_processor_time() -> None:
    mirror = [
        row(subject, shape, {"mb_per_cpu_s": figure})
        for subject, figure in (("headrace mirror", 150.0), ("MirrorMaker 2", 15.0))
        for shape in ("librdkafka's own batches", "batches of 5 KB")
    ]
    assert _outcome("mirroring, MB a processor second, librdkafka's own batches", mirror=mirror).reached is True
    assert _outcome("mirroring, MB a processor second, batches of 5 KB", mirror=mirror).reached is False
