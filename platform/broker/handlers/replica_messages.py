"""What brokers tell each other of their replicas, keys 20001 and 20002 (`replicas.messages`). Only on the listener for brokers.

Not in ApiVersions: no client calls these."""

from ..errors import FrameRefused
from ..replicas.replicas import Replicas
from .broker import Answer, Broker
from .request import Request


def tell(broker: Broker, request: Request) -> Answer:
    """Take what a follower has and wants. There is no response."""
    _replicas(broker, request).followers.tell(request.body)
    return None


def poll(broker: Broker, request: Request) -> Answer:
    """Return what there is for a follower, as soon as there is something."""
    return _replicas(broker, request).followers.poll(request.body)


def _replicas(broker: Broker, request: Request) -> Replicas:
    if broker.replicas is None or request.peer.listener != broker.settings.inter_broker_listener:
        raise FrameRefused("a message between replicas, which only brokers send, on their own listener", "not_served")
    return broker.replicas
