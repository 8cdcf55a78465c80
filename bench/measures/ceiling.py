"""The server's ceiling: a raw client with many requests in flight on one connection. It needs a fraction of the server's CPU."""

from contextlib import contextmanager

from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..peers.makers import kafka_like
from ..peers.nats import Nats
from ..peers.subjects import KAFKA, OURS
from ..peers.way import Way
from .driver_figures import figures_of
from .other_peers import ways_of

_IN_FLIGHT = 1000
_COUNTS = {(OURS, 1): 400_000, (OURS, 50): 3_000_000, (KAFKA, 1): 60_000, (KAFKA, 50): 1_000_000}
"""Messages a run, about a second each."""


class Ceiling:
    """Messages a second through a raw pipelined client, beside NATS with its own."""

    name = "ceiling"
    title = "The broker's ceiling: raw pipelined client, 1000 requests in flight"
    needs = frozenset({OURS, KAFKA, Nats.name})
    warm_ups = 1
    at_most = 99

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        found: list[Case] = []
        running = kafka_like(servers, (OURS, KAFKA))
        for (name, batch), count in _COUNTS.items():
            if name in running:
                found.append(_case(name, running[name], batch, servers.scaled(count)))
        for way in ways_of(servers, (Nats.name,)):
            found.append(_own(way, servers.scaled(way.count)))
        yield found


def _case(name: str, server: SpeaksKafka, batch: int, count: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"ceiling-{batch}-{turn}"
        kafka_clients.make_topic(server, topic)
        in_flight = _IN_FLIGHT if batch == 1 else 200
        figures = figures_of(kafka_clients.raw_produce(server, topic, batch=batch, count=count, in_flight=in_flight))
        kafka_clients.check_log(
            name,
            topic,
            wanted=count,
            shape=str(batch),
            before=kafka_clients.OnDisk(batches=0, records=0, bytes=0),
            after=kafka_clients.on_disk(server, topic),
        )
        kafka_clients.delete_topic(server, topic)
        return figures

    return Case(subject=name, shape=f"batch {batch}", run=run, how="raw C client")


def _own(way: Way, count: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"ceiling-{turn}"
        figures = figures_of(way.produce(topic, count))
        way.forget(topic)
        return figures

    return Case(subject=way.subject, shape="batch 1", run=run, how=way.how)
