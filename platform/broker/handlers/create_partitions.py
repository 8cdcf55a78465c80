"""CreatePartitions, key 37, versions 0-3: a topic gets more partitions, those it has staying as they are.

Trap for users: keys go to other partitions from then on. Kafka does the same."""

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..errors import NotMorePartitions
from ..slices import Steps
from . import replica_assignment
from .context import Context, required
from .gathering import STILL_UNDER_WAY, Gathering, outcome_of
from .replica_assignment import MOST_PARTITIONS, Refusal

KEY = 37

Outcome = tuple[ErrorCode, str | None]


def handle(context: Context, version: int, body: memoryview, peer: str) -> Steps:
    """Return what became of each topic, once its new partitions may be written to."""
    request = yield from control.decode_in_steps(KEY, version, body)
    refused, to_extend = yield from replica_assignment.sorted_out(
        required(request.topics), partial(_refusal, context), partial(_new_count, context)
    )
    if request.validate_only or not to_extend:
        return (yield from _answer(version, {**refused, **dict.fromkeys(to_extend, (ErrorCode.NONE, None))}))
    gathering = Gathering[str, Outcome](
        context,
        to_extend,
        timeout_ms=control.milliseconds(request.timeout),
        overdue=lambda name: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda extended: _answer(version, {**refused, **extended}),
    )

    def begin(name: str) -> None:
        topic = to_extend[name]
        places = None if topic.assignments is None else [tuple(map(int, one.broker_ids)) for one in topic.assignments]

        def done(outcome: bool | Exception) -> None:
            gathering.put(name, outcome_of(outcome, name, not_done="got no more partitions"))

        context.topics.extend(name, int(topic.count), places, done)

    return gathering.start(begin)


def _new_count(context: Context, topic: Any) -> int:
    return int(topic.count) - len(context.topics.catalog.topics[str(topic.name)].partitions)


def _refusal(context: Context, topic: Any) -> Refusal | None:
    name, count = str(topic.name), int(topic.count)
    entry = context.topics.catalog.topics.get(name)
    if entry is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    present = len(entry.partitions)
    if count <= present:
        return ErrorCode.INVALID_PARTITIONS, str(NotMorePartitions(name, present, count))
    if count > MOST_PARTITIONS:
        return replica_assignment.too_many(count)
    if topic.assignments is None:
        return None
    if len(topic.assignments) != count - present:
        why = f"{len(topic.assignments)} assignments for {count - present} new partitions: give one for each"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    return replica_assignment.fault_of([required(one.broker_ids) for one in topic.assignments], context.broker_ids)


def _answer(version: int, results: Mapping[str, Outcome]) -> Generator[None, None, bytes]:
    answers = ({"name": name, "error_code": error, "error_message": message} for name, (error, message) in results.items())
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "results": answers})
