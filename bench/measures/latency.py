"""From a message's due time in the producer to its arrival in the consumer, at 10,000 messages a second, both in one
process with one clock.
"""

from contextlib import contextmanager

from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..stage import KAFKA, KAFKA_TUNED, OURS, Stage
from .measure import Case, CaseStream, Figures

PER_S = 10_000


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
        for name in (OURS, KAFKA, KAFKA_TUNED):
            server = stage.kafka_like(name)
            if server is not None:
                found.append(_case(name, server, 2 if stage.quick else 5))
        yield found


def _case(name: str, server: SpeaksKafka, seconds: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"latency-{turn}"
        kafka_clients.make_topic(server, topic)
        driven = kafka_clients.latency(server, topic, PER_S, seconds)
        kafka_clients.delete_topic(server, topic)
        figures = {name: float(driven.more[name]) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}
        return {**figures, "server_busy": driven.server_cpu_s / driven.seconds}

    return Case(
        subject=name, shape="10,000 a second", run=run, how="librdkafka, C, linger.ms=0, acks=1; one producer and one consumer"
    )
