"""DescribeDamage, key 20005 of our own protocol: damaged and repaired ranges of this broker's logs.

Not in ApiVersions. Needs Describe on the cluster, where there are access rules."""

from ...wire.errors import ErrorCode
from ...wire.messages import describe_damage as wire
from ...wire.messages.describe_damage import Kind, Row
from ..event_loop.response_generators import ResponseGenerator
from ..rights.rule import Operation, Resource
from .broker import Broker
from .request import Request

KEY = wire.KEY
PARTITIONS_A_STEP = 100


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return what is damaged now, and what was repaired since the time that is asked for."""
    since_ms = wire.decode_request(bytes(request.body))
    access = broker.access
    if access is not None and not access.asking(request.peer, KEY).may(Operation.DESCRIBE, Resource.CLUSTER):
        return wire.encode_response(wire.Response(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    rows: list[Row] = []
    for number, partition in enumerate(list(broker.partitions)):
        if number % PARTITIONS_A_STEP == 0:
            yield
        if partition.is_replicated or partition.is_gone:
            continue
        for bad in partition.log.bad_ranges:
            rows.append(Row(Kind.DAMAGED, partition.topic, partition.index, bad.from_offset, bad.to_offset, 0, 0, bad.reason))
    if broker.damage is not None:
        for one in broker.damage.book.damages():
            kind = Kind.UNDECIDED if one.is_undecided else Kind.DAMAGED
            rows.append(Row(kind, one.topic, one.partition, one.from_offset, one.to_offset, one.since_ms, 0, one.reason))
        if since_ms >= 0:
            rows += [
                Row(Kind.REPAIRED, one.topic, one.partition, one.from_offset, one.to_offset, one.at_ms, one.record_count)
                for one in broker.damage.book.repairs
                if one.at_ms >= since_ms
            ]
    response = wire.Response(ErrorCode.NONE, broker.settings.broker_id, broker.now_ms(), tuple(rows[: wire.MOST_ROWS]))
    return wire.encode_response(response)
