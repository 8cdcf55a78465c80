"""What a Python user gets: each server through its own Python client, 200-byte messages. Here the client, not the
server, sets the pace.
"""

import importlib.metadata
import sys
from contextlib import contextmanager

from ..drivers.run import Driven, drive
from ..harness.missing import Missing
from ..harness.stage import KAFKA, OURS, Stage
from ..peers import kafka_clients
from ..peers.nats import Nats
from ..peers.peer import MESSAGE_BYTES, Peer
from ..peers.rabbitmq import RabbitMQ
from ..peers.redis import Redis
from .measure import Case, CaseStream, Figures, figures_of

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
    def cases(self, stage: Stage) -> CaseStream:
        found: list[Case] = []
        for name, (client, count) in CLIENTS.items():
            peer = stage.peer(name)
            if peer is None:
                continue
            try:
                version = importlib.metadata.version(client)
            except importlib.metadata.PackageNotFoundError:
                stage.skip(f"{name} from Python", f"{client} is not installed (extra `bench`)")
                continue
            if isinstance(peer, Nats | Redis | RabbitMQ):
                try:
                    peer.ways()
                except Missing:
                    continue
            found.append(_case(name, peer, client, stage.scaled(count), f"{client} {version}"))
        yield found


def _case(name: str, peer: Peer, client: str, count: int, how: str) -> Case:
    def run(turn: int) -> Figures:
        topic = f"python-{turn}"
        if name in (OURS, KAFKA):
            kafka_clients.make_topic(peer, topic)  # type: ignore[arg-type]
        produced = _drive(peer, client, "produce", topic, count)
        consumed = _drive(peer, client, "consume", topic, count)
        if name in (OURS, KAFKA):
            kafka_clients.delete_topic(peer, topic)  # type: ignore[arg-type]
        elif isinstance(peer, Nats | Redis | RabbitMQ):
            peer.ways()[0].forget(topic)
        return {
            "produce_messages_per_s": count / produced.seconds,
            "consume_messages_per_s": count / consumed.seconds,
            **{f"produce_{name}": value for name, value in figures_of(produced).items() if "cpu" in name},
            **{f"consume_{name}": value for name, value in figures_of(consumed).items() if "cpu" in name},
        }

    return Case(subject=name, shape="Python", run=run, how=how)


def _drive(peer: Peer, client: str, task: str, topic: str, count: int) -> Driven:
    port: int = peer.port  # type: ignore[attr-defined]
    words = [client, task, str(port), topic, str(count), str(MESSAGE_BYTES)]
    return drive([sys.executable, "-m", "bench.drivers.python.client", *words], lambda: peer.pids)
