"""Acknowledged on disk: 64 requests of one message in flight on one connection, under each flush policy, ours and Kafka's."""

from collections.abc import Mapping
from contextlib import contextmanager

from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..peers.makers import kafka_like
from ..peers.subjects import KAFKA, OURS
from .driver_figures import figures_of

IN_FLIGHT = 64
POLICIES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    OURS: {
        "no forced flush": {"flush.ack": "none"},
        "interval": {"flush.ack": "interval"},
        "acknowledged on disk": {"flush.ack": "always"},
    },
    KAFKA: {"no forced flush": {}, "acknowledged on disk": {"flush.messages": "1"}},
}
"""Server → promise → topic settings."""
_COUNTS = {
    (OURS, "no forced flush"): 250_000,
    (OURS, "interval"): 250_000,
    (OURS, "acknowledged on disk"): 100_000,
    (KAFKA, "no forced flush"): 40_000,
    (KAFKA, "acknowledged on disk"): 4_000,
}
"""Messages a run, about a second each."""


class Durable:
    """Messages a second under each policy."""

    name = "durable"
    title = "Acknowledged on disk: 64 in flight, one message a request"
    needs = frozenset({OURS, KAFKA})
    warm_ups = 1
    at_most = 99

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        found: list[Case] = []
        for name, server in kafka_like(servers, POLICIES).items():
            for policy, settings in POLICIES[name].items():
                found.append(_case(name, server, policy, settings, servers.scaled(_COUNTS[name, policy])))
        yield found


def _case(name: str, server: SpeaksKafka, policy: str, settings: Mapping[str, str], count: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"durable-{policy.replace(' ', '-')}-{turn}"
        kafka_clients.make_topic(server, topic, settings=settings)
        figures = figures_of(kafka_clients.raw_produce(server, topic, batch=1, count=count, in_flight=IN_FLIGHT))
        kafka_clients.delete_topic(server, topic)
        return figures

    how = ", ".join(f"{setting}={value}" for setting, value in settings.items()) or "as it comes"
    return Case(subject=name, shape=policy, run=run, how=how)
