"""What a Python user gets: each server through its own Python client, 200-byte messages. Here the client sets the pace."""

import importlib.metadata
import sys
from contextlib import contextmanager

from ..drivers.run import Driven, drive
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..harness.unavailable import Unavailable
from ..peers import kafka_clients
from ..peers.headrace import Headrace
from ..peers.kafka import Kafka
from ..peers.lifecycle import LoopbackServer
from ..peers.nats import Nats
from ..peers.rabbitmq import RabbitMQ
from ..peers.redis import Redis
from ..peers.subjects import KAFKA, OURS
from ..peers.way import MESSAGE_BYTES
from .driver_figures import figures_of

CLIENTS = {
    OURS: ("confluent-kafka", 300_000),
    KAFKA: ("confluent-kafka", 300_000),
    RabbitMQ.name: ("pika", 15_000),
    Nats.name: ("nats-py", 30_000),
    Redis.name: ("redis", 40_000),
}
"""Server → its Python client, messages a run."""


class PythonView:
    """Messages a second, produced and then consumed."""

    name = "python"
    title = "The Python user's view"
    needs = frozenset(CLIENTS)
    warm_ups = 0
    at_most = 5

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        found: list[Case] = []
        for name, (client, count) in CLIENTS.items():
            peer = servers.running(name)
            if not isinstance(peer, LoopbackServer):
                continue
            try:
                version = importlib.metadata.version(client)
            except importlib.metadata.PackageNotFoundError:
                servers.skip(f"{name} from Python", f"{client} is not installed (extra `bench`)")
                continue
            if isinstance(peer, Nats | Redis | RabbitMQ):
                try:
                    peer.ways()
                except Unavailable:
                    continue
            found.append(_case(name, peer, client, servers.scaled(count), f"{client} {version}"))
        yield found


def _case(name: str, peer: LoopbackServer, client: str, count: int, how: str) -> Case:
    def run(turn: int) -> Figures:
        topic = f"python-{turn}"
        if isinstance(peer, Headrace | Kafka):
            kafka_clients.make_topic(peer, topic)
        produced = _drive(peer, client, "produce", topic, count)
        consumed = _drive(peer, client, "consume", topic, count)
        if isinstance(peer, Headrace | Kafka):
            kafka_clients.delete_topic(peer, topic)
        elif isinstance(peer, Nats | Redis | RabbitMQ):
            peer.ways()[0].forget(topic)
        return {
            "produce_messages_per_s": count / produced.seconds,
            "consume_messages_per_s": count / consumed.seconds,
            **{f"produce_{name}": value for name, value in figures_of(produced).items() if "cpu" in name},
            **{f"consume_{name}": value for name, value in figures_of(consumed).items() if "cpu" in name},
        }

    return Case(subject=name, shape="Python", run=run, how=how)


def _drive(peer: LoopbackServer, client: str, task: str, topic: str, count: int) -> Driven:
    words = [client, task, str(peer.port), topic, str(count), str(MESSAGE_BYTES)]
    return drive([sys.executable, "-m", "bench.drivers.python.client", *words], lambda: peer.pids)
