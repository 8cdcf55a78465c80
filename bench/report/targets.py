"""The table of targets, row by row, against what was measured. Pure: medians in, verdicts out.

A row that was not measured (its peer is missing, its case failed) is neither reached nor missed: its verdict says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .judges import KAFKA, OURS, RECORD_BYTES, Judge, Judges, Medians, NotMeasured

_BESIDE_KAFKA = "≥ 1.2 × Kafka (client busy: CPU ≤ 0.6 ×)"
_ON_DISK = "acknowledged on disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOutcome:
    """One row. `reached` is None where it was not measured."""

    what: str
    wanted: str
    found: str
    reached: bool | None


def medians_of(measures: Mapping[str, Any]) -> dict[tuple[str, str, str], Mapping[str, float]]:
    """Return the medians of a result's `measures` by measure, subject and shape."""
    return {
        (name, row["subject"], row["shape"]): row["median"]
        for name, measure in measures.items()
        for row in measure.get("rows", [])
        if row["median"]
    }


def verdicts(found: Medians) -> list[TargetOutcome]:
    """Return every row of the table in its order."""
    judges = Judges(found)
    rows = [*_throughput(judges), *_machine(judges), *_size_and_growth(judges), *_logging(judges), *_mirroring(judges)]
    return [_outcome(what, wanted, judge) for what, wanted, judge in rows]


def summary(found: Sequence[TargetOutcome]) -> str:
    """Return how many rows are reached, missed, not measured."""
    reached = sum(one.reached is True for one in found)
    missed = sum(one.reached is False for one in found)
    return f"{reached} rows reached, {missed} not reached, {len(found) - reached - missed} not measured"


_Row = tuple[str, str, Judge]
"""What is measured, what is wanted of it, who judges it."""


def _throughput(judges: Judges) -> Iterator[_Row]:
    for shape in ("batch 1", "batch 50", "batch default"):
        for acks in (0, 1):
            case = f"{shape}, acks {acks}"
            yield f"produce, {case}", _BESIDE_KAFKA, judges.faster_than_kafka("produce", case)
    for peer, least in (("RabbitMQ classic", "50"), ("ActiveMQ", "50"), ("NATS JetStream", "6"), ("Redis Streams", "3.5")):
        judge = judges.faster("produce", "batch 50, acks 1", peer, "its own", least)
        yield f"produce, batch 50, beside {peer}", f"≥ {least} ×", judge
    judge = judges.faster("ceiling", "batch 1", "NATS JetStream", "batch 1", "1.0")
    yield "produce at batch 1, raw pipelined client", "≥ 1.0 × NATS JetStream", judge
    for shape in ("batches of 50, 200 KB", "batches of 50, 1 MB", "batches of 50, 200 KB, cold", "batches of 50, 1 MB, cold"):
        yield f"consume, {shape}", _BESIDE_KAFKA, judges.faster_than_kafka("consume", shape)
    for peer, least in (("RabbitMQ classic", "25"), ("ActiveMQ", "25"), ("Redis Streams", "2.5")):
        judge = judges.faster("consume", "batches of 50, 1 MB", peer, "its own", least)
        yield f"consume, 1 MB fetches, beside {peer}", f"≥ {least} ×", judge


def _machine(judges: Judges) -> Iterator[_Row]:
    judge = judges.cpu("produce", "batch 50, acks 1", 0.4)
    yield "CPU a million messages, produce 50 a batch", "≤ 0.5 × Kafka and ≤ 0.4 s", judge
    yield "CPU a million messages, consume, 1 MB fetches", "≤ 0.5 × Kafka and ≤ 0.08 s", judges.cpu_of_consuming
    for shape, least, what in (
        ("fetching, 1 MB a fetch", "0.85", "fetch MB/s against a bare sendfile loop"),
        ("producing, 1 MB a batch", "0.75", "produce MB/s at 1 MB batches against a bare receive and write loop"),
    ):
        yield what, f"≥ {least}", judges.share("bare", "mb_per_s", (OURS, shape), ("bare loop", shape), least)
    for percentile, label in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")):
        yield f"latency produce → consume at 10 k msg/s, {label}", "≤ 0.5 × Kafka", judges.latency(percentile)
    for other, wanted, least, what in (
        ((OURS, "no forced flush"), "≥ 0.5", "0.5", "against the same without fsync"),
        ((KAFKA, _ON_DISK), "≥ 5 ×", "5", "beside Kafka with flush.messages=1"),
    ):
        judge = judges.share("durable", "messages_per_s", (OURS, _ON_DISK), other, least)
        yield f"acknowledged on disk, 64 in flight, {what}", wanted, judge


def _size_and_growth(judges: Judges) -> Iterator[_Row]:
    start, loaded = "start to first accepted produce", "1,000 partitions under load"
    yield "start to first accepted produce", "< 0.7 s", judges.below("footprint", start, "seconds", 0.7, "s")
    yield "memory when idle", "< 60 MB", judges.below("footprint", start, "rss_mb", 60, "MB")
    yield "memory with 1,000 partitions under load", "< 120 MB", judges.below("footprint", loaded, "rss_mb", 120, "MB")
    judge = judges.below("restart", "10 GB", "seconds", 2.0, "s")
    yield "restart after kill -9 with 10 GB of log", "accepting within 2 s", judge
    for near, far in (
        ("10 partitions", "10,000 partitions"),
        ("10 connections", "5,000 connections"),
        ("1 MB of log", "100 GB of log"),
        ("1 MB of log, fetching", "100 GB of log, fetching"),
    ):
        yield f"{near} → {far}", "≥ 0.7", judges.grown(near, far)
    wanted = f"≤ {RECORD_BYTES} + 61/50 bytes, the format's own"
    yield "storage overhead a message at 50 a batch", wanted, judges.overhead


def _logging(judges: Judges) -> Iterator[_Row]:
    tight, paced = "one after another", "1,000 a second"
    in_python, native, peer = "EventLogger, Python", "EventLogger, native", "confluent-kafka, AvroSerializer"
    for subject, most in ((in_python, "0.6"), (native, "0.25")):
        judge = judges.cheaper("sdk", "in_all_us", (subject, tight), (peer, tight), most, "µs")
        yield f"an event logged, processor time in all: {subject}", f"≤ {most} × {peer}", judge
    for name, label, most_us in (("p50_us", "p50", 4), ("p99_us", "p99", 20), ("p999_us", "p99.9", 1_000)):
        judge = judges.within("sdk", (native, paced), name, most_us, "µs")
        yield f"an event logged at 1,000 a second, the caller's {label}: {native}", f"≤ {most_us:,} µs", judge


def _mirroring(judges: Judges) -> Iterator[_Row]:
    for shape, least in (("librdkafka's own batches", "10"), ("batches of 5 KB", "20")):
        judge = judges.share("mirror", "mb_per_cpu_s", ("headrace mirror", shape), ("MirrorMaker 2", shape), least)
        yield f"mirroring, MB a processor second, {shape}", f"≥ {least} × MirrorMaker 2", judge
    for shape in ("librdkafka's own batches", "batches of 5 KB"):
        judge = judges.share("mirror", "mb_per_s", ("headrace mirror", shape), ("bare fetch and produce", shape), "0.6")
        yield f"mirroring, MB/s, {shape}", "≥ 0.6 × a bare fetch and produce", judge
    for shape in ("librdkafka's own batches", "batches of 5 KB"):
        judge = judges.share("verify", "mb_per_s", ("headrace mirror verify", shape), ("bare fetch of both", shape), "0.8")
        yield f"comparing two clusters, MB/s, {shape}", "≥ 0.8 × a bare fetch of both", judge
    for shape in ("100 ms, 1 % loss, cubic", "100 ms, 1 % loss, bbr"):
        for subject in ("headrace mirror, one partition", "headrace mirror, 8 partitions"):
            judge = judges.share("far", "line_mb_per_s", (subject, shape), ("one TCP connection", shape), "0.8")
            yield f"mirroring over a far line, {shape}: {subject}", "≥ 0.8 × one TCP connection", judge


def _outcome(what: str, wanted: str, judge: Judge) -> TargetOutcome:
    try:
        reached, found = judge()
    except NotMeasured as lacking:
        return TargetOutcome(what=what, wanted=wanted, found=f"not measured: {lacking}", reached=None)
    return TargetOutcome(what=what, wanted=wanted, found=found, reached=reached)
