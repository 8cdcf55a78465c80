"""The runs behind the figures. A peer has its time, and stops when that is over; so the test ends."""

import time
from collections.abc import Callable, Iterator

from ..harness.servers import Servers
from ..measures.other_peers import ways_of
from ..peers import kafka_clients
from ..peers.activemq import ActiveMQ
from ..peers.kafka_clients import SpeaksKafka
from ..peers.makers import kafka_like
from ..peers.rabbitmq import RabbitMQ
from ..peers.subjects import KAFKA, OURS
from ..peers.way import Way
from .series import Series, pieces, sizes

FETCH_BYTES = 204_800
"""The paper's consumer pre-fetches about 200 KB a request."""
BATCHES = ("1", "50")
SMALLEST_PIECE = 2_000
PEERS = (RabbitMQ.name, ActiveMQ.name)
PRODUCES = ("RabbitMQ classic", "ActiveMQ")
CONSUMES = ("RabbitMQ classic, confirms", "ActiveMQ")
"""Ways of the peers. RabbitMQ's consumer without acknowledgements would lose what is under way at the end of a piece."""
Figures = tuple[list[Series], list[Series]]


def run(servers: Servers, *, messages: int, points: int, peer_s: float, tell: Callable[[str], None]) -> Figures:
    """Return the curves of producers and of consumers. `peer_s`: the longest that a peer may produce, or consume, each."""
    producers: list[Series] = []
    consumers: list[Series] = []
    for name in (OURS, KAFKA):
        for server in kafka_like(servers, [name]).values():
            for batch in BATCHES:
                produced, consumed = _kafka_like(server, name, batch, messages, points, tell)
                producers.append(produced)
                consumers += consumed
        servers.keep_only(set())
    for name in PEERS:
        found = ways_of(servers, [name])
        producers += [_produce(way, messages, points, peer_s, tell) for way in found if way.subject in PRODUCES]
        consumers += [_consume(way, messages, points, peer_s, tell) for way in found if way.subject in CONSUMES and way.consume]
        servers.keep_only(set())
    return producers, consumers


def _kafka_like(
    server: SpeaksKafka, name: str, batch: str, messages: int, points: int, tell: Callable[[str], None]
) -> tuple[Series, list[Series]]:
    topic = f"paper-{batch}"
    kafka_clients.make_topic(server, topic)
    kafka_clients.send(server, topic, 1_000, batch, 0)  # a client's and a topic's first messages are no part of the test
    before = kafka_clients.on_disk(server, topic)
    produced = Series(subject=f"{name}, batch {batch}", how="librdkafka, C; one producer, acks 0 as the paper's")
    for size in sizes(messages, points, 50):
        produced.add(size, kafka_clients.send(server, topic, size, batch, 0).seconds)
    after = kafka_clients.on_disk(server, topic)
    kafka_clients.check_log(name, topic, wanted=messages, shape="any", before=before, after=after)
    tell(f"{produced.subject}: produced {messages} at {produced.messages_per_s:,.0f}/s")
    consumed = []
    if batch != "1":  # as in the paper: one curve of a consumer
        series = Series(
            subject=name, how=f"librdkafka, C; one consumer, {FETCH_BYTES // 1024} KB a fetch, written in batches of {batch}"
        )
        driven = kafka_clients.consume(server, topic, messages, FETCH_BYTES, progress_every=max(1, messages // points))
        for count, seconds in pieces(driven.more["progress"], messages, driven.seconds):
            series.add(count, seconds)
        tell(f"{name}: consumed {messages} at {series.messages_per_s:,.0f}/s")
        consumed.append(series)
    kafka_clients.delete_topic(server, topic)
    return produced, consumed


def _produce(way: Way, messages: int, points: int, peer_s: float, tell: Callable[[str], None]) -> Series:
    series = Series(subject=way.subject, how=way.how)
    for _ in _within(series, way, messages, points, peer_s):
        pass
    way.forget(_topic(way))
    tell(f"{way.subject}: produced {series.messages} at {series.messages_per_s:,.0f}/s {series.note}")
    return series


def _consume(way: Way, messages: int, points: int, peer_s: float, tell: Callable[[str], None]) -> Series:
    """Fill the queue first, for as long as the test may last; then read that."""
    assert way.consume is not None
    filled = Series(subject=way.subject, how=way.how)
    parts = list(_within(filled, way, messages, points, peer_s))
    series = Series(subject=way.subject, how=way.how, note=filled.note)
    began = time.monotonic()
    for size in parts:
        series.add(size, way.consume(_topic(way), size).seconds)
        if time.monotonic() - began > peer_s and series.messages < messages:
            series.note = f"ended after {peer_s:.0f} s"
            break
    way.forget(_topic(way))
    tell(f"{way.subject}: consumed {series.messages} at {series.messages_per_s:,.0f}/s {series.note}")
    return series


def _within(series: Series, way: Way, messages: int, points: int, peer_s: float) -> Iterator[int]:
    """Produce piece after piece until there are `messages`, or time is over; yield the size of each."""
    began = time.monotonic()
    for size in sizes(messages, max(points, -(-messages // way.count)), min(SMALLEST_PIECE, messages)):
        series.add(size, way.produce(_topic(way), size).seconds)
        yield size
        if time.monotonic() - began > peer_s and series.messages < messages:
            series.note = f"ended after {peer_s:.0f} s"
            return


def _topic(way: Way) -> str:
    return f"paper-{way.subject.replace(' ', '-').replace(',', '').lower()}"
