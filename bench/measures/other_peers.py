"""The peers that do not speak Kafka's protocol, as ways of use; what this machine lacks is noted as skipped by name."""

from ..harness.missing import Missing
from ..harness.stage import Stage
from ..peers.activemq import ActiveMQ
from ..peers.nats import Nats
from ..peers.peer import Way
from ..peers.rabbitmq import RabbitMQ
from ..peers.redis import Redis

OTHERS = (Nats.name, Redis.name, RabbitMQ.name, ActiveMQ.name)


def ways_of(stage: Stage) -> list[Way]:
    """Return every way of every such peer that is installed here."""
    found: list[Way] = []
    for name in OTHERS:
        peer = stage.peer(name)
        if isinstance(peer, Nats | Redis | RabbitMQ | ActiveMQ):
            try:
                found += peer.ways()
            except Missing as reason:
                stage.skip(name, str(reason))
    return found
