"""AlterPartitionReassignments, key 45, versions 0-1, ListPartitionReassignments, key 46, version 0: moves partitions to other
brokers, and lists the moves under way.

A request only notes what is wanted, in the partition's node. The leader completes the move when all new replicas are in sync
(`replicas.moves`). A later request replaces an earlier one, null ends a move, as in Apache Kafka."""

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.response_generators import ResponseGenerator
from ..partitions.catalog import ReplicaView
from ..partitions.placement import Placement, placement
from ..replicas.messages import Key
from ..replicas.moves import Moved, Wanted
from .broker import Broker, required
from .fan_in import LONGEST_WAIT_MS, NAMED_TWICE, STILL_UNDER_WAY
from .replica_assignment import Refusal
from .request import Request

ALTER_KEY, LIST_KEY = 45, 46
MOVED: Mapping[Moved, Refusal | None] = {
    Moved.DONE: None,
    Moved.NOT_MOVING: (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "this partition is not being moved"),
    Moved.UNKNOWN: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
}

Partition = tuple[str, int]


def list_(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the partitions, of those asked for, that get replicas."""
    decoded = yield from control.decode_in_steps(LIST_KEY, request.version, request.body)
    known = broker.topics.catalog.topics
    asked: dict[str, set[int] | None] = dict.fromkeys(known)
    if decoded.topics is not None:
        asked = {str(one.name): {int(index) for index in required(one.partition_indexes)} for one in decoded.topics}
    topics = []
    for name, indices in asked.items():
        yield
        if (entry := known.get(name)) is not None:
            moving = [_moving(index, view) for index, view in sorted(entry.states.items()) if view.targets]
            moving = [one for one in moving if indices is None or one["partition_index"] in indices]
            if moving:
                topics.append({"name": name, "partitions": moving})
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "topics": topics}
    return (yield from control.encode_in_steps(LIST_KEY, request.version, message))


def _moving(index: int, view: ReplicaView) -> dict[str, Any]:
    adding = [one for one in view.targets if one not in view.replicas]
    return {
        "partition_index": index,
        "replicas": [*view.replicas, *adding],
        "adding_replicas": adding,
        "removing_replicas": [one for one in view.replicas if one not in view.targets],
    }


def alter(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each partition, once the request is noted."""
    version = request.version
    decoded = yield from control.decode_in_steps(ALTER_KEY, version, request.body)
    may_change_count = bool(getattr(decoded, "allow_replication_factor_change", True))
    live, known = broker.broker_ids, broker.topics.catalog.topics
    results: dict[Partition, Refusal | None] = {}
    wanted: dict[Key, tuple[Partition, Wanted]] = {}
    for topic in required(decoded.topics):
        name = str(topic.name)
        entry = known.get(name)
        for one in required(topic.partitions):
            yield
            partition = name, int(one.partition_index)
            brokers = None if one.replicas is None else tuple(map(int, one.replicas))
            placed = None if entry is None else placement(entry, partition[1], live)
            if partition in results:
                results[partition] = ErrorCode.INVALID_REQUEST, NAMED_TWICE
                continue
            results[partition] = refusal(placed, brokers, live, may_change_count=may_change_count)
            if results[partition] is None and entry is not None and placed is not None and brokers != placed.replicas:
                is_single = len(entry.partitions[partition[1]]) == 1
                single = placed.replicas[0] if is_single else None
                wanted[entry.topic_id, partition[1]] = partition, Wanted(topic=name, brokers=brokers, single=single)
            elif results[partition] is None and entry is not None and placed is not None and placed.targets:
                wanted[entry.topic_id, partition[1]] = partition, Wanted(topic=name, brokers=brokers)
    wanted = {key: one for key, one in wanted.items() if results[one[0]] is None}
    if not wanted:
        return (yield from _altered(version, results, may_change_count))
    if broker.moves is None:
        alone = ErrorCode.INVALID_REPLICA_ASSIGNMENT, "this broker serves only topics of one replica"
        return (yield from _altered(version, {**results, **{one[0]: alone for one in wanted.values()}}, may_change_count))

    def late() -> None:
        answer({})

    def answer(moved: Mapping[Key, Moved]) -> None:
        for key, (partition, _) in wanted.items():
            results[partition] = MOVED[moved.get(key, Moved.UNKNOWN)]
        broker.generators.complete(deferred, _altered(version, results, may_change_count))

    wait_ms = min(LONGEST_WAIT_MS, max(1, control.milliseconds(decoded.timeout)))
    deferred = DeferredResponse(deadline_ms=broker.loop.now_ms + wait_ms, at_deadline=late)
    broker.moves.request({key: one for key, (_, one) in wanted.items()}, answer)
    return deferred


def refusal(
    placed: Placement | None, wanted: Sequence[int] | None, live: Collection[int], *, may_change_count: bool = True
) -> Refusal | None:
    """Return why a partition is not moved to the brokers `wanted`, None when it is; its order is the order of preference. Pure.

    `placed` is None for a partition that does not exist. `wanted` is None in a request to end a move.
    """
    if placed is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    if wanted is None:
        if placed.targets:
            return None
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "this partition is not being moved"
    if not wanted or min(wanted) < 0 or len(set(wanted)) < len(wanted):
        why = f"{list(wanted)} is no list of replicas: name at least one broker, and each once"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    if missing := sorted(set(wanted) - set(live) - set(placed.replicas)):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"brokers {missing} are not there: start them, or name others"
    if not may_change_count and len(wanted) != len(placed.replicas):
        why = f"the partition has {len(placed.replicas)} replicas and would have {len(wanted)}, which the request does not allow"
        return ErrorCode.INVALID_REPLICATION_FACTOR, why
    return None


def _altered(version: int, results: Mapping[Partition, Refusal | None], may_change_count: bool) -> Generator[None, None, bytes]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), fault in results.items():
        error, why = fault or (ErrorCode.NONE, None)
        by_topic.setdefault(topic, []).append({"partition_index": index, "error_code": error, "error_message": why})
    message = {
        "throttle_time_ms": 0,
        "allow_replication_factor_change": may_change_count,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "responses": [{"name": name, "partitions": partitions} for name, partitions in by_topic.items()],
    }
    return (yield from control.encode_in_steps(ALTER_KEY, version, message))
