"""How a row of the table of targets is judged: which figures it takes, how they are compared, how they are printed. Pure.

A row is judged by the measured values as they are, never by their printed form. A ratio is compared as a fraction, without a
division that could round it to its bar.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

BUSY = 0.95
"""From this share of a core on, the client sets the pace of a run, and the server's CPU for each message decides instead."""

RECORD_BYTES = 9
"""What the record format adds to a message of 200 bytes without a key: lengths, attributes, deltas, header count."""

OVERHEAD_BYTES = RECORD_BYTES + Fraction(61, 50)
"""What the format adds to each message in a full batch of 50: its record's framing and a fiftieth of the batch's header."""

GB_PER_MILLION = float(200 + OVERHEAD_BYTES) / 1_000
"""Of messages of 200 bytes in batches of 50, in a log."""

OURS, KAFKA = "Headrace", "Kafka"

Medians = Mapping[tuple[str, str, str], Mapping[str, float]]
"""(measure, subject, shape) → figure → median."""

Judge = Callable[[], tuple[bool, str]]
"""Returns whether the row is reached, and what was found, in words. Raises NotMeasured."""


class NotMeasured(Exception):
    """A figure that a row needs is absent. The text says which."""


def ratio(over: float, under: float) -> float:
    """Return over ÷ under, for print; infinite over nothing."""
    return over / under if under else float("inf")


def at_least(bar: str, over: float, under: float) -> bool:
    """Return whether over ÷ under ≥ `bar`, a decimal; exact."""
    return Fraction(over) >= Fraction(bar) * Fraction(under)


def at_most(bar: str, over: float, under: float) -> bool:
    """Return whether over ÷ under ≤ `bar`, a decimal; exact."""
    return Fraction(over) <= Fraction(bar) * Fraction(under)


def rate(value: float) -> str:
    """Return a rate in three digits: 1.31 M, 161 k, 940."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}" if value / size < 1000 else f"{value / size:,.0f}{unit}"
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Judges:
    """Makes the judges of all kinds of rows on one run's medians."""

    medians: Medians

    def figure(self, measure: str, subject: str, shape: str, name: str) -> float:
        """Return one median. Raises NotMeasured."""
        try:
            return self.medians[measure, subject, shape][name]
        except KeyError:
            raise NotMeasured(f"{subject}, {shape}") from None

    def faster(self, measure: str, shape: str, peer: str, peer_shape: str, least: str) -> Judge:
        """Messages a second: ours at least `least` times the peer's."""

        def judge() -> tuple[bool, str]:
            ours = self.figure(measure, OURS, shape, "messages_per_s")
            theirs = self.figure(measure, peer, peer_shape, "messages_per_s")
            words = f"{ratio(ours, theirs):.2f} × ({rate(ours)} against {rate(theirs)} msg/s)"
            return at_least(least, ours, theirs), words

        return judge

    def faster_than_kafka(self, measure: str, shape: str) -> Judge:
        """At least 1.2 times Kafka's messages a second; where the client is busy, at most 0.6 times Kafka's CPU is enough."""

        def judge() -> tuple[bool, str]:
            faster, words = self.faster(measure, shape, KAFKA, shape, "1.2")()
            busy = self.figure(measure, OURS, shape, "client_busy")
            ours, theirs = (self.figure(measure, name, shape, "server_cpu_s_per_million") for name in (OURS, KAFKA))
            words += f"; client {busy:.0%} of a core; CPU {ratio(ours, theirs):.2f} × ({ours:.2f} against {theirs:.2f} s/M)"
            return faster or (busy >= BUSY and at_most("0.6", ours, theirs)), words

        return judge

    def cpu(self, measure: str, shape: str, most_s: float) -> Judge:
        """The server's CPU a million messages: at most `most_s`, and half of Kafka's where Kafka was measured."""

        def judge() -> tuple[bool, str]:
            ours = self.figure(measure, OURS, shape, "server_cpu_s_per_million")
            try:
                theirs = self.figure(measure, KAFKA, shape, "server_cpu_s_per_million")
            except NotMeasured:
                return ours <= most_s, f"{ours:.3f} s/M; Kafka was not measured"
            return ours <= most_s and at_most("0.5", ours, theirs), f"{ours:.3f} s/M, {ratio(ours, theirs):.2f} × Kafka"

        return judge

    def cpu_of_consuming(self) -> tuple[bool, str]:
        """The same for consuming. A bare sendfile loop is printed beside it and decides nothing."""
        reached, words = self.cpu("consume", "batches of 50, 1 MB", 0.08)()
        with contextlib.suppress(NotMeasured):
            alone = self.figure("bare", "bare loop", "fetching, 1 MB a fetch", "server_cpu_s_per_gb") * GB_PER_MILLION
            words += f"; a bare sendfile loop: {alone:.3f} s"
        return reached, words

    def share(self, measure: str, name: str, ours: tuple[str, str], other: tuple[str, str], least: str) -> Judge:
        """One figure of two cases (subject, shape): ours at least `least` times the other's."""

        def judge() -> tuple[bool, str]:
            top, bottom = self.figure(measure, *ours, name), self.figure(measure, *other, name)
            return at_least(least, top, bottom), f"{ratio(top, bottom):.2f} ({rate(top)} against {rate(bottom)})"

        return judge

    def latency(self, percentile: str) -> Judge:
        """At most half of Kafka's. A minimal broker in C is printed beside it and decides nothing."""

        def judge() -> tuple[bool, str]:
            shape, name = "10,000 a second", f"{percentile}_ms"
            ours, theirs = self.figure("latency", OURS, shape, name), self.figure("latency", KAFKA, shape, name)
            words = f"{ratio(ours, theirs):.2f} × ({ours:.2f} against {theirs:.2f} ms)"
            with contextlib.suppress(NotMeasured):
                words += f"; a broker that only hands on: {self.figure('latency', 'bare broker', shape, name):.2f} ms"
            return at_most("0.5", ours, theirs), words

        return judge

    def below(self, measure: str, shape: str, name: str, limit: float, unit: str) -> Judge:
        """One figure of ours: less than `limit`. Kafka's is printed beside it and decides nothing."""

        def judge() -> tuple[bool, str]:
            ours = self.figure(measure, OURS, shape, name)
            words = f"{ours:.3g} {unit}"
            with contextlib.suppress(NotMeasured):
                words += f" (Kafka: {self.figure(measure, KAFKA, shape, name):.3g} {unit})"
            return ours < limit, words

        return judge

    def cheaper(self, measure: str, name: str, ours: tuple[str, str], other: tuple[str, str], most: str, unit: str) -> Judge:
        """One figure of two cases (subject, shape): ours at most `most` times the other's."""

        def judge() -> tuple[bool, str]:
            top, bottom = self.figure(measure, *ours, name), self.figure(measure, *other, name)
            return at_most(most, top, bottom), f"{ratio(top, bottom):.2f} × ({rate(top)} against {rate(bottom)} {unit})"

        return judge

    def within(self, measure: str, case: tuple[str, str], name: str, most: float, unit: str) -> Judge:
        """One figure of a case (subject, shape): at most `most`."""

        def judge() -> tuple[bool, str]:
            found = self.figure(measure, *case, name)
            return found <= most, f"{found:.3g} {unit}"

        return judge

    def grown(self, near: str, far: str) -> Judge:
        """Messages a second at the far end: at least 0.7 of the near end's. Bare files are printed beside it only."""

        def judge() -> tuple[bool, str]:
            reached, words = self.share("growth", "messages_per_s", (OURS, far), (OURS, near), "0.7")()
            with contextlib.suppress(NotMeasured):
                ends = [self.figure("growth", "bare files", shape, "messages_per_s") for shape in (far, near)]
                words += f"; writes to as many files, alone: {ratio(*ends):.2f}"
            return reached, words

        return judge

    def overhead(self) -> tuple[bool, str]:
        """Bytes on disk a message beside its own 200: no more than the format's arithmetic, to the byte."""
        on_disk, messages = (self.figure("produce", OURS, "batch 50, acks 1", name) for name in ("disk_bytes", "messages"))
        each = Fraction(on_disk) / Fraction(messages) - 200
        beyond = f", {float(each - OVERHEAD_BYTES):.3g} more than that" if each > OVERHEAD_BYTES else ""
        return each <= OVERHEAD_BYTES, f"{float(each):.2f} bytes{beyond}"
