"""CreatePartitions, key 37, versions 0-3: a topic gets more partitions, those it has staying as they are.

Trap for users: keys go to other partitions from then on. Kafka does the same."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..errors import NotMorePartitions
from ..later import Later
from . import placement
from .context import Context, required
from .gathering import STILL_UNDER_WAY, Gathering, code_of
from .placement import MOST_NEW, MOST_PARTITIONS, TOO_MANY_NEW, Refusal

KEY = 37

Outcome = tuple[ErrorCode, str | None]


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return what became of each topic, once its new partitions may be written to."""
    request = control.decode_request(KEY, version, body)
    named = Counter(str(topic.name) for topic in required(request.topics))
    results: dict[str, Outcome] = {}
    to_extend: dict[str, Any] = {}
    left = MOST_NEW
    for topic in request.topics:
        name = str(topic.name)
        refusal = (ErrorCode.INVALID_REQUEST, "named twice in one request") if named[name] > 1 else _refusal(context, topic)
        if refusal is None:
            new = int(topic.count) - len(context.topics.catalog.topics[name].partitions)
            refusal, left = (TOO_MANY_NEW, left) if new > left else (None, left - new)
        if refusal is not None:
            results[name] = refusal
        elif request.validate_only:
            results[name] = ErrorCode.NONE, None
        else:
            to_extend[name] = topic
    if not to_extend:
        return _answer(version, results)
    gathering = Gathering[str, Outcome](
        context,
        to_extend,
        timeout_ms=control.milliseconds(request.timeout),
        overdue=lambda name: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda extended: _answer(version, {**results, **extended}),
    )

    def begin(name: str) -> None:
        topic = to_extend[name]
        places = None if topic.assignments is None else [tuple(map(int, one.broker_ids)) for one in topic.assignments]
        context.topics.extend(name, int(topic.count), places, lambda outcome: gathering.put(name, _outcome(name, outcome)))

    return gathering.start(begin)


def _outcome(name: str, outcome: bool | Exception) -> Outcome:
    if outcome is True:
        return ErrorCode.NONE, None
    if outcome is False:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    return code_of(outcome), f"topic {name!r} got no more partitions: {outcome}"


def _refusal(context: Context, topic: Any) -> Refusal | None:
    name, count = str(topic.name), int(topic.count)
    entry = context.topics.catalog.topics.get(name)
    if entry is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    present = len(entry.partitions)
    if count <= present:
        return ErrorCode.INVALID_PARTITIONS, str(NotMorePartitions(name, present, count))
    if count > MOST_PARTITIONS:
        return ErrorCode.INVALID_PARTITIONS, f"{count} partitions: give at most {MOST_PARTITIONS}"
    if topic.assignments is None:
        return None
    if len(topic.assignments) != count - present:
        why = f"{len(topic.assignments)} assignments for {count - present} new partitions: give one for each"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, why
    return placement.fault_of([required(one.broker_ids) for one in topic.assignments], context.broker_ids)


def _answer(version: int, results: Mapping[str, Outcome]) -> bytes:
    answers = [{"name": name, "error_code": error, "error_message": message} for name, (error, message) in results.items()]
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "results": answers})
