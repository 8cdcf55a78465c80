"""What brokers tell each other of their replicas: keys 20001 and 20002 (`replicas.messages`), of damage in them, 20003 and 20004
(`replicas.scrub_messages`), that one is to take over, 20007 (`replicas.handing_over`), and of recoveries, 20006 and 20008
(`replicas.recovering`). Only on the listener for brokers.

Not in ApiVersions: no client calls these."""

from ..errors import FrameRefused
from ..replicas import recovering
from ..replicas.handing_over import HAND_OVER_KEY, decode_request, encode_response
from ..replicas.mending import Mending
from ..replicas.messages import POLL_KEY, TELL_KEY
from ..replicas.replicas import Replicas
from ..replicas.scrub_messages import COMPARE_KEY, READ_KEY
from ..rights.rule import Operation, Resource
from .broker import Answer, Broker
from .request import Request


def tell(broker: Broker, request: Request) -> Answer:
    """Take what a follower has and wants. There is no response."""
    _replicas(broker, request, TELL_KEY).followers.tell(memoryview(request.body))
    return None


def poll(broker: Broker, request: Request) -> Answer:
    """Return what there is for a follower, as soon as there is something."""
    return _replicas(broker, request, POLL_KEY).followers.poll(memoryview(request.body))


def compare(broker: Broker, request: Request) -> Answer:
    """Compare a range of a replica with its leader's, or take what the leader says of it."""
    return _mending(broker, request, COMPARE_KEY).compare(memoryview(request.body))


def read(broker: Broker, request: Request) -> Answer:
    """Return whole batches for the repair of another replica."""
    return _mending(broker, request, READ_KEY).read(memoryview(request.body))


def _mending(broker: Broker, request: Request, key: int) -> Mending:
    _replicas(broker, request, key)
    if broker.damage is None:
        raise FrameRefused("a message about damage, which this broker does not compare", "not_served")
    return broker.damage.mending


def hand_over(broker: Broker, request: Request) -> Answer:
    """Begin to take partitions over, and say for each whether that has begun."""
    replicas = _replicas(broker, request, HAND_OVER_KEY)
    asked, leader_stops = decode_request(memoryview(request.body))
    return encode_response([replicas.take_over(key, epoch, leader_stops=leader_stops) for key, epoch in asked])


def holding(broker: Broker, request: Request) -> Answer:
    """Return what the replica of a partition here holds."""
    replicas = _replicas(broker, request, recovering.HOLDING_KEY)
    driver = replicas.find(recovering.decode_key(bytes(request.body)))
    book = None if broker.damage is None else broker.damage.book
    return recovering.encode_candidate(recovering.candidate(broker.settings.broker_id, driver, book))


def recover(broker: Broker, request: Request) -> Answer:
    """Begin to lead although acknowledged records are lost, and say whether that has begun."""
    replicas = _replicas(broker, request, recovering.RECOVER_KEY)
    wanted = recovering.decode_order(bytes(request.body))
    driver = replicas.find(wanted.key)
    has_begun = driver is not None and driver.recover(wanted.version, wanted.event())
    return b"true" if has_begun else b"false"


def _replicas(broker: Broker, request: Request, key: int) -> Replicas:
    if broker.replicas is None or request.peer.listener != broker.settings.inter_broker_listener:
        raise FrameRefused("a message between replicas, which only brokers send, on their own listener", "not_served")
    access = broker.access
    if access is not None and not access.asking(request.peer, key).may(Operation.CLUSTER_ACTION, Resource.CLUSTER):
        raise FrameRefused(f"{request.peer.principal} may not act as a broker: add it to super.users if it is one", "denied")
    return broker.replicas
