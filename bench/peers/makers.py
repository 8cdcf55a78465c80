"""Every peer by its name: how it is made, and how a measure gets one that speaks Kafka's protocol."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..harness.servers import Server, Servers
from .activemq import ActiveMQ
from .headrace import Headrace
from .kafka import Kafka
from .nats import Nats
from .rabbitmq import RabbitMQ
from .redis import Redis
from .subjects import BASE, KAFKA, KAFKA_TUNED, OURS


def makers(*, quick: bool, only_ours: bool = False, base: Path | None = None) -> Mapping[str, Callable[[Path], Server]]:
    """Return name → what makes that server on a folder. `base`: another checkout, measured beside ours instead of the peers."""
    if base is not None:
        tree = base.absolute()
        return {OURS: Headrace, BASE: lambda folder: Headrace(folder, tree=tree)}
    if only_ours:
        return {OURS: Headrace}
    requests, messages = (30_000, 20_000) if quick else (200_000, 600_000)
    return {
        OURS: Headrace,
        KAFKA: lambda folder: Kafka(folder, warm_up_requests=requests),
        KAFKA_TUNED: lambda folder: Kafka(folder, "tuned", warm_up_requests=requests),
        Nats.name: Nats,
        Redis.name: Redis,
        RabbitMQ.name: RabbitMQ,
        ActiveMQ.name: lambda folder: ActiveMQ(folder, warm_up_messages=messages),
    }


def kafka_like(servers: Servers, names: Iterable[str]) -> dict[str, Headrace | Kafka]:
    """Return the running servers of these names, which speak Kafka's protocol; without those that this machine or run lacks."""
    running = {name: servers.running(name) for name in names}
    return {name: server for name, server in running.items() if isinstance(server, Headrace | Kafka)}
