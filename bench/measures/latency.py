"""From a message's due time in the producer to its arrival in the consumer, at 10,000 messages a second, both in one
process with one clock; and what of it threads, wake-ups and sockets take alone.
"""

from contextlib import contextmanager

from ..drivers.build import built
from ..drivers.run import Driven, drive
from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..peers.peer import MESSAGE_BYTES
from ..stage import KAFKA, KAFKA_TUNED, OURS, Stage
from .measure import Case, CaseStream, Figures

PER_S = 10_000
SHAPE = "10,000 a second"
RELAY = "bare relay"


class Latency:
    """Percentiles in milliseconds."""

    name = "latency"
    title = "Latency from producing to consuming at 10,000 messages a second"
    needs = frozenset({OURS, KAFKA, KAFKA_TUNED})
    warm_ups = 1
    at_most = 99

    @contextmanager
    def cases(self, stage: Stage) -> CaseStream:
        found: list[Case] = []
        seconds = 2 if stage.quick else 5
        for name in (OURS, KAFKA, KAFKA_TUNED):
            server = stage.kafka_like(name)
            if server is not None:
                found.append(_case(name, server, seconds))
        found.append(_relay(seconds))
        yield found


def _case(name: str, server: SpeaksKafka, seconds: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"latency-{turn}"
        kafka_clients.make_topic(server, topic)
        driven = kafka_clients.latency(server, topic, PER_S, seconds)
        kafka_clients.delete_topic(server, topic)
        return {**_percentiles(driven), "server_busy": driven.server_cpu_s / driven.seconds}

    return Case(subject=name, shape=SHAPE, run=run, how="librdkafka, C, linger.ms=0, acks=1; one producer and one consumer")


def _relay(seconds: int) -> Case:
    def run(_: int) -> Figures:
        return _percentiles(drive([str(built("bare_relay")), str(PER_S), str(seconds), str(MESSAGE_BYTES)], lambda: []))

    how = "C: as many threads and sockets, and a process between them that only passes on: no broker can be faster here"
    return Case(subject=RELAY, shape=SHAPE, run=run, how=how)


def _percentiles(driven: Driven) -> Figures:
    return {name: float(driven.more[name]) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}
