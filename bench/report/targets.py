"""The table of targets, row by row, against what was measured. Pure: medians in, verdicts out.

A row is judged by the measured values as they are, never by their printed form; a ratio is compared as a fraction, without a
division that could round it to its bar. A row that was not measured (its peer is missing, its case failed) is neither reached nor
missed: its verdict says so.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

BUSY = 0.95
"""From this share of a core on, the client sets the pace of a run, and the server's CPU for each message decides instead."""

RECORD_BYTES = 9
"""What the record format adds to a message of 200 bytes without a key: three lengths, attributes, two deltas, header count."""

OVERHEAD_BYTES = RECORD_BYTES + Fraction(61, 50)
"""What the format adds to each message in a full batch of 50: its record's framing and a fiftieth of the batch's header."""

GB_PER_MILLION = float(200 + OVERHEAD_BYTES) / 1_000
"""Of messages of 200 bytes in batches of 50, in a log."""

Medians = Mapping[tuple[str, str, str], Mapping[str, float]]
"""(measure, subject, shape) → figure → median."""


class NotMeasured(Exception):
    """A figure that a row needs is absent. The text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
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


def ratio(over: float, under: float) -> float:
    """Return over ÷ under; infinite over nothing."""
    return over / under if under else float("inf")


def at_least(bar: str, over: float, under: float) -> bool:
    """Return whether over ÷ under ≥ `bar`, a decimal; exact."""
    return Fraction(over) >= Fraction(bar) * Fraction(under)


def at_most(bar: str, over: float, under: float) -> bool:
    """Return whether over ÷ under ≤ `bar`, a decimal; exact."""
    return Fraction(over) <= Fraction(bar) * Fraction(under)


def verdicts(found: Medians) -> list[Verdict]:
    """Return every row of the table in its order."""

    def figure(measure: str, subject: str, shape: str, name: str) -> float:
        try:
            return found[measure, subject, shape][name]
        except KeyError:
            raise NotMeasured(f"{subject}, {shape}") from None

    rows: list[tuple[str, str, Callable[[], tuple[bool, str]]]] = []

    def row(what: str, wanted: str, judge: Callable[[], tuple[bool, str]]) -> None:
        rows.append((what, wanted, judge))

    def against(measure: str, shape: str, peer: str, peer_shape: str, least: str) -> Callable[[], tuple[bool, str]]:
        def judge() -> tuple[bool, str]:
            ours = figure(measure, "Headrace", shape, "messages_per_s")
            theirs = figure(measure, peer, peer_shape, "messages_per_s")
            words = f"{ratio(ours, theirs):.2f} × ({rate(ours)} against {rate(theirs)} msg/s)"
            return at_least(least, ours, theirs), words

        return judge

    def against_kafka(measure: str, shape: str) -> Callable[[], tuple[bool, str]]:
        def judge() -> tuple[bool, str]:
            plain, words = against(measure, shape, "Kafka", shape, "1.2")()
            busy = figure(measure, "Headrace", shape, "client_busy")
            cpu = figure(measure, "Headrace", shape, "server_cpu_s_per_million")
            theirs = figure(measure, "Kafka", shape, "server_cpu_s_per_million")
            words += f"; client {busy:.0%} of a core; CPU {ratio(cpu, theirs):.2f} × ({cpu:.2f} against {theirs:.2f} s/M)"
            return plain or (busy >= BUSY and at_most("0.6", cpu, theirs)), words

        return judge

    for shape in ("batch 1", "batch 50", "batch default"):
        for acks in (0, 1):
            what = f"produce, {shape}, acks {acks}"
            row(what, "≥ 1.2 × Kafka (client busy: CPU ≤ 0.6 ×)", against_kafka("produce", f"{shape}, acks {acks}"))
    for peer, least in (("RabbitMQ classic", "50"), ("ActiveMQ", "50"), ("NATS JetStream", "6"), ("Redis Streams", "3.5")):
        row(f"produce, batch 50, beside {peer}", f"≥ {least} ×", against("produce", "batch 50, acks 1", peer, "its own", least))
    row(
        "produce at batch 1, raw pipelined client",
        "≥ 1.0 × NATS JetStream",
        against("ceiling", "batch 1", "NATS JetStream", "batch 1", "1.0"),
    )
    for shape in ("batches of 50, 200 KB", "batches of 50, 1 MB", "batches of 50, 200 KB, cold", "batches of 50, 1 MB, cold"):
        row(f"consume, {shape}", "≥ 1.2 × Kafka (client busy: CPU ≤ 0.6 ×)", against_kafka("consume", shape))
    for peer, least in (("RabbitMQ classic", "25"), ("ActiveMQ", "25"), ("Redis Streams", "2.5")):
        shape = "batches of 50, 1 MB"
        row(f"consume, 1 MB fetches, beside {peer}", f"≥ {least} ×", against("consume", shape, peer, "its own", least))

    def cpu(measure: str, shape: str, most: float) -> Callable[[], tuple[bool, str]]:
        def judge() -> tuple[bool, str]:
            ours = figure(measure, "Headrace", shape, "server_cpu_s_per_million")
            try:
                theirs = figure(measure, "Kafka", shape, "server_cpu_s_per_million")
            except NotMeasured:
                return ours <= most, f"{ours:.3f} s/M; Kafka was not measured"
            return ours <= most and at_most("0.5", ours, theirs), f"{ours:.3f} s/M, {ratio(ours, theirs):.2f} × Kafka"

        return judge

    def cpu_of_consuming() -> tuple[bool, str]:
        reached, words = cpu("consume", "batches of 50, 1 MB", 0.08)()
        with contextlib.suppress(NotMeasured):
            alone = figure("bare", "bare loop", "fetching, 1 MB a fetch", "server_cpu_s_per_gb") * GB_PER_MILLION
            words += f"; a bare sendfile loop: {alone:.3f} s"
        return reached, words

    row("CPU a million messages, produce 50 a batch", "≤ 0.5 × Kafka and ≤ 0.4 s", cpu("produce", "batch 50, acks 1", 0.4))
    row("CPU a million messages, consume, 1 MB fetches", "≤ 0.5 × Kafka and ≤ 0.08 s", cpu_of_consuming)

    def share_of(
        measure: str, name: str, ours: tuple[str, str], other: tuple[str, str], least: str
    ) -> Callable[[], tuple[bool, str]]:
        def judge() -> tuple[bool, str]:
            top, bottom = figure(measure, *ours, name), figure(measure, *other, name)
            return at_least(least, top, bottom), f"{ratio(top, bottom):.2f} ({rate(top)} against {rate(bottom)})"

        return judge

    for shape, least, what in (
        ("fetching, 1 MB a fetch", "0.85", "fetch MB/s against a bare sendfile loop"),
        ("producing, 1 MB a batch", "0.75", "produce MB/s at 1 MB batches against a bare receive and write loop"),
    ):
        row(what, f"≥ {least}", share_of("bare", "mb_per_s", ("Headrace", shape), ("bare loop", shape), least))
    for name in ("p50", "p99", "p999"):

        def slower(name: str = name) -> tuple[bool, str]:
            ours = figure("latency", "Headrace", "10,000 a second", f"{name}_ms")
            theirs = figure("latency", "Kafka", "10,000 a second", f"{name}_ms")
            words = f"{ratio(ours, theirs):.2f} × ({ours:.2f} against {theirs:.2f} ms)"
            with contextlib.suppress(NotMeasured):
                alone = figure("latency", "bare broker", "10,000 a second", f"{name}_ms")
                words += f"; a broker that only hands on: {alone:.2f} ms"
            return at_most("0.5", ours, theirs), words

        row(f"latency produce → consume at 10 k msg/s, {name.replace('999', '99.9')}", "≤ 0.5 × Kafka", slower)
    disk, free = ("Headrace", "acknowledged on disk"), ("Headrace", "no forced flush")
    row(
        "acknowledged on disk, 64 in flight, against the same without fsync",
        "≥ 0.5",
        share_of("durable", "messages_per_s", disk, free, "0.5"),
    )
    row(
        "acknowledged on disk, 64 in flight, beside Kafka with flush.messages=1",
        "≥ 5 ×",
        share_of("durable", "messages_per_s", disk, ("Kafka", "acknowledged on disk"), "5"),
    )

    def below(measure: str, shape: str, name: str, most: float, unit: str) -> Callable[[], tuple[bool, str]]:
        def judge() -> tuple[bool, str]:
            ours = figure(measure, "Headrace", shape, name)
            try:
                theirs = f" (Kafka: {figure(measure, 'Kafka', shape, name):.3g} {unit})"
            except NotMeasured:
                theirs = ""
            return ours < most, f"{ours:.3g} {unit}{theirs}"

        return judge

    start, loaded = "start to first accepted produce", "1,000 partitions under load"
    row("start to first accepted produce", "< 0.7 s", below("footprint", start, "seconds", 0.7, "s"))
    row("memory when idle", "< 60 MB", below("footprint", start, "rss_mb", 60, "MB"))
    row("memory with 1,000 partitions under load", "< 120 MB", below("footprint", loaded, "rss_mb", 120, "MB"))
    row("restart after kill -9 with 10 GB of log", "accepting within 2 s", below("restart", "10 GB", "seconds", 2.0, "s"))

    def grown(near: str, far: str) -> Callable[[], tuple[bool, str]]:
        plain = share_of("growth", "messages_per_s", ("Headrace", far), ("Headrace", near), "0.7")

        def judge() -> tuple[bool, str]:
            reached, words = plain()
            with contextlib.suppress(NotMeasured):
                ends = [figure("growth", "bare files", shape, "messages_per_s") for shape in (far, near)]
                words += f"; writes to as many files, alone: {ratio(*ends):.2f}"
            return reached, words

        return judge

    for near, far in (
        ("10 partitions", "10,000 partitions"),
        ("10 connections", "5,000 connections"),
        ("1 MB of log", "100 GB of log"),
        ("1 MB of log, fetching", "100 GB of log, fetching"),
    ):
        row(f"{near} → {far}", "≥ 0.7", grown(near, far))

    def overhead() -> tuple[bool, str]:
        on_disk, messages = (figure("produce", "Headrace", "batch 50, acks 1", name) for name in ("disk_bytes", "messages"))
        each = Fraction(on_disk) / Fraction(messages) - 200
        beyond = f", {float(each - OVERHEAD_BYTES):.3g} more than that" if each > OVERHEAD_BYTES else ""
        return each <= OVERHEAD_BYTES, f"{float(each):.2f} bytes{beyond}"

    row("storage overhead a message at 50 a batch", f"≤ {RECORD_BYTES} + 61/50 bytes, the format's own", overhead)
    return [_verdict(what, wanted, judge) for what, wanted, judge in rows]


def _verdict(what: str, wanted: str, judge: Callable[[], tuple[bool, str]]) -> Verdict:
    try:
        reached, found = judge()
    except NotMeasured as lacking:
        return Verdict(what=what, wanted=wanted, found=f"not measured: {lacking}", reached=None)
    return Verdict(what=what, wanted=wanted, found=found, reached=reached)


def rate(value: float) -> str:
    """Return a rate in three figures: 1.31 M, 161 k, 940."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}" if value / size < 1000 else f"{value / size:,.0f}{unit}"
    return f"{value:.3g}"


def summary(found: Sequence[Verdict]) -> str:
    """Return how many rows are reached, missed, not measured."""
    reached = sum(one.reached is True for one in found)
    missed = sum(one.reached is False for one in found)
    return f"{reached} rows reached, {missed} not reached, {len(found) - reached - missed} not measured"
