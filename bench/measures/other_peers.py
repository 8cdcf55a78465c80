"""The ways of using those peers that do not speak Kafka's protocol. What this machine lacks is noted as skipped, by name."""

from collections.abc import Sequence

from ..harness.servers import Servers
from ..harness.unavailable import Unavailable
from ..peers.activemq import ActiveMQ
from ..peers.nats import Nats
from ..peers.rabbitmq import RabbitMQ
from ..peers.redis import Redis
from ..peers.way import Way

OTHERS = (Nats.name, Redis.name, RabbitMQ.name, ActiveMQ.name)


def ways_of(servers: Servers, names: Sequence[str] = OTHERS) -> list[Way]:
    """Return every way of every such peer among `names` that is installed here."""
    found: list[Way] = []
    for name in names:
        peer = servers.running(name)
        if isinstance(peer, Nats | Redis | RabbitMQ | ActiveMQ):
            try:
                found += peer.ways()
            except Unavailable as reason:
                servers.skip(name, str(reason))
    return found
