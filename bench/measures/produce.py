"""Producing: one producer, 200-byte messages, no forced flush. Ours and Kafka with the same C client at three batch sizes and two
kinds of acknowledgement, every other peer with its fastest client.

Each run has a topic of its own, deleted afterwards, so that no run pays for another's pages in the page cache. The messages on
disk are counted after each run.
"""

from contextlib import contextmanager

from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..peers.makers import kafka_like
from ..peers.subjects import BASE, KAFKA_LIKE, OURS
from .driver_figures import figures_of
from .other_peers import OTHERS, ways_of

_COUNTS = {"1": 100_000, "50": 1_000_000, "default": 2_000_000}
_KAFKA_ONE_BY_ONE = 40_000
"""For Kafka, which needs several seconds for these."""


class Produce:
    """Messages a second and the server's CPU for each, while producing."""

    name = "produce"
    title = "Producing, 200-byte messages, one producer"
    needs = frozenset({*KAFKA_LIKE, *OTHERS})
    warm_ups = 1
    at_most = 99

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        found: list[Case] = []
        running = kafka_like(servers, KAFKA_LIKE)
        for shape in _COUNTS:
            for acks in (1, 0):
                for name, server in running.items():
                    count = _KAFKA_ONE_BY_ONE if shape == "1" and name not in (OURS, BASE) else _COUNTS[shape]
                    found.append(_kafka_like(name, server, shape, acks, servers.scaled(count)))
        for way in ways_of(servers):
            count = servers.scaled(way.count)

            def run(turn: int, way=way, count=count) -> Figures:  # type: ignore[no-untyped-def]
                topic = f"produce-{way.subject.replace(' ', '-').replace(',', '').lower()}-{turn}"
                figures = figures_of(way.produce(topic, count))
                if way.disk_bytes is not None:
                    figures["disk_bytes_per_message"] = way.disk_bytes(topic) / count
                way.forget(topic)
                return figures

            found.append(Case(subject=way.subject, shape="its own", run=run, how=way.how))
        yield found


def _kafka_like(name: str, server: SpeaksKafka, shape: str, acks: int, count: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"produce-{shape}-{acks}-{turn}"
        kafka_clients.make_topic(server, topic)
        figures = figures_of(kafka_clients.produce(server, topic, count, shape, acks))
        written = kafka_clients.on_disk(server, topic).bytes
        figures |= {"disk_bytes": written, "messages": count, "disk_bytes_per_message": written / count}
        kafka_clients.delete_topic(server, topic)
        return figures

    return Case(subject=name, shape=f"batch {shape}, acks {acks}", run=run, how="librdkafka, C")
