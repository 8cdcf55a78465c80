"""Consuming from the beginning: one consumer, messages of 200 bytes in batches of 50 (and of 1), with fetches of 200 KB and of
1 MB, from a warm and from a cold page cache.

A log is written once and read in each round. A queue, which reading empties, is filled before each round. Cold: every segment is
synced and dropped from the page cache (posix_fadvise) before the run, for ours and for Kafka.
"""

from contextlib import contextmanager

from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..peers.makers import kafka_like
from ..peers.subjects import KAFKA_LIKE
from ..peers.way import Way
from .driver_figures import figures_of
from .other_peers import OTHERS, ways_of

_FETCHES = {"200 KB": 204_800, "1 MB": 1_048_576}
_COUNT = 2_000_000
_ONE_BY_ONE = 200_000


class Consume:
    """Messages a second and the server's CPU for each, while consuming."""

    name = "consume"
    title = "Consuming, 200-byte messages, one consumer"
    needs = frozenset({*KAFKA_LIKE, *OTHERS})
    warm_ups = 1
    at_most = 99

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        count, one_by_one = servers.scaled(_COUNT), servers.scaled(_ONE_BY_ONE)
        found: list[Case] = []
        running = kafka_like(servers, KAFKA_LIKE)
        for server in running.values():
            for topic, messages, shape in (("consume-50", count, "50"), ("consume-1", one_by_one, "1")):
                kafka_clients.make_topic(server, topic)
                kafka_clients.produce(server, topic, messages, shape, 1)
        for label, fetch_bytes in _FETCHES.items():
            for name, server in running.items():
                found.append(_case(name, server, "consume-50", f"batches of 50, {label}", count, fetch_bytes))
            for name, server in running.items():
                found.append(_case(name, server, "consume-1", f"batches of 1, {label}", one_by_one, fetch_bytes))
        for label, fetch_bytes in _FETCHES.items():
            for name, server in running.items():
                found.append(_case(name, server, "consume-50", f"batches of 50, {label}, cold", count, fetch_bytes, cold=True))
        filled: list[Way] = []
        for way in ways_of(servers):
            if way.consume is not None:
                if not way.consuming_empties:
                    way.produce(_topic(way), servers.scaled(way.count * 2))
                    filled.append(way)
                found.append(_other(way, servers.scaled(way.count * (1 if way.consuming_empties else 2))))
        yield found
        for server in running.values():
            for topic in ("consume-50", "consume-1"):
                kafka_clients.delete_topic(server, topic)
        for way in filled:
            way.forget(_topic(way))


def _case(name: str, server: SpeaksKafka, topic: str, shape: str, count: int, fetch_bytes: int, *, cold: bool = False) -> Case:
    def run(_: int) -> Figures:
        if cold:
            kafka_clients.drop_from_page_cache(kafka_clients.segments_of(server, topic))
        return figures_of(kafka_clients.consume(server, topic, count, fetch_bytes))

    return Case(subject=name, shape=shape, run=run, how="librdkafka, C")


def _other(way: Way, count: int) -> Case:
    def run(turn: int) -> Figures:
        assert way.consume is not None
        topic = f"{_topic(way)}-{turn}" if way.consuming_empties else _topic(way)
        if way.consuming_empties:
            way.produce(topic, count)
        figures = figures_of(way.consume(topic, count))
        if way.consuming_empties:
            way.forget(topic)
        return figures

    return Case(subject=way.subject, shape="its own", run=run, how=way.how)


def _topic(way: Way) -> str:
    return f"consume-{way.subject.replace(' ', '-').replace(',', '').lower()}"
