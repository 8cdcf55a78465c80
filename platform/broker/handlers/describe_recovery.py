"""DescribeRecovery, key 20009 of our own protocol: what a recovery of one partition would give up. Changes nothing.

Not in ApiVersions. Needs Describe on the cluster, where there are access rules."""

from ...wire.errors import ErrorCode
from ...wire.messages import describe_recovery as wire
from ...wire.messages.describe_recovery import Replica, Response
from ..event_loop.deferred_response import DeferredResponse
from ..replicas import recovering
from ..replicas.recovering import Prospect
from ..rights.rule import Operation, Resource
from .broker import Answer, Broker
from .request import Request

KEY = wire.KEY
NOT_READ = "its state cannot be read: it has one replica only, or ZooKeeper does not answer"


def handle(broker: Broker, request: Request) -> Answer:
    """Return the plan of a recovery, or why none is due."""
    topic, index = wire.decode_request(bytes(request.body))
    access = broker.access
    if access is not None and not access.asking(request.peer, KEY).may(Operation.DESCRIBE, Resource.CLUSTER):
        return wire.encode_response(Response(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    entry = broker.topics.catalog.topics.get(topic)
    if entry is None or index not in entry.partitions:
        return wire.encode_response(Response(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"))
    if broker.replicas is None or broker.peers is None:
        return wire.encode_response(Response(ErrorCode.ELECTION_NOT_NEEDED, "this broker serves topics of one replica only"))
    deferred = DeferredResponse()
    recovering.look(
        broker.replicas,
        broker.peers,
        (entry.topic_id, index),
        lambda found: deferred.complete([wire.encode_response(response(found))]),
    )
    return deferred


def response(found: Prospect | None) -> Response:
    """Return the answer that says what was found. Pure."""
    if found is None:
        return Response(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, NOT_READ)
    plan = found.plan
    replicas = tuple(
        Replica(
            one.broker_id,
            one.log.log_start_offset,
            one.log.end_offset,
            one.log.last_epoch,
            () if plan is None else plan.lost[one.broker_id],
        )
        for one in found.candidates
    )
    if plan is None:
        error, why = found.why_not()
        return Response(error, why, replicas=replicas, silent=found.silent)
    return Response(ErrorCode.NONE, "", plan.chosen, plan.start_offset, plan.log_start_offset, replicas, found.silent, plan.doubt)
