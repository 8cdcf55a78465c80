"""CreatePartitions, key 37, versions 0-3: adds partitions to a topic, with as many replicas as its others have.

Its present partitions stay as they are.

Trap for users, the same in Kafka: from then on keys map to other partitions."""

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..errors import NotMorePartitions
from ..event_loop.response_generators import ResponseGenerator
from . import replica_assignment
from .broker import Broker, required
from .fan_in import STILL_UNDER_WAY, FanIn, outcome_of
from .replica_assignment import MOST_PARTITIONS, Refusal
from .request import Request

KEY = 37

Outcome = tuple[ErrorCode, str | None]


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each topic, once clients may write to its new partitions."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    refused, to_extend = yield from replica_assignment.sorted_out(
        required(decoded.topics), partial(_refusal, broker), partial(_new_count, broker)
    )
    if decoded.validate_only or not to_extend:
        return (yield from _answer(version, {**refused, **dict.fromkeys(to_extend, (ErrorCode.NONE, None))}))
    fan_in = FanIn[str, Outcome](
        broker,
        to_extend,
        timeout_ms=control.milliseconds(decoded.timeout),
        overdue=lambda name: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda extended: _answer(version, {**refused, **extended}),
    )

    def begin(name: str) -> None:
        topic = to_extend[name]
        replicas = None if topic.assignments is None else [tuple(map(int, one.broker_ids)) for one in topic.assignments]

        def done(outcome: bool | Exception) -> None:
            fan_in.put(name, outcome_of(outcome, name, not_done="got no more partitions"))

        broker.topics.extend(name, int(topic.count), replicas, done)

    return fan_in.start(begin)


def _new_count(broker: Broker, topic: Any) -> int:
    return int(topic.count) - len(broker.topics.catalog.topics[str(topic.name)].partitions)


def _refusal(broker: Broker, topic: Any) -> Refusal | None:
    name, count = str(topic.name), int(topic.count)
    entry = broker.topics.catalog.topics.get(name)
    if entry is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    present = len(entry.partitions)
    if count <= present:
        return ErrorCode.INVALID_PARTITIONS, str(NotMorePartitions(name, present, count))
    if count > MOST_PARTITIONS:
        return replica_assignment.too_many(count)
    if topic.assignments is None:
        return replica_assignment.factor_refusal(entry.replication_factor, broker.broker_ids)
    if len(topic.assignments) != count - present:
        why = f"{len(topic.assignments)} assignments for {count - present} new partitions: give one for each"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    replicas = [required(one.broker_ids) for one in topic.assignments]
    return replica_assignment.fault_of(replicas, broker.broker_ids, entry.replication_factor)


def _answer(version: int, results: Mapping[str, Outcome]) -> Generator[None, None, bytes]:
    answers = ({"name": name, "error_code": error, "error_message": message} for name, (error, message) in results.items())
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "results": answers})
