"""DeleteTopics, key 20, versions 0-6: deletes topics and their data.

Version 6 may name a topic by its id. A topic that was created again under the same name is then not deleted."""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from typing import Any
from uuid import UUID

from ...wire import topic_name
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .fan_in import NAMED_TWICE, STILL_UNDER_WAY, FanIn, outcome_of
from .request import Request

KEY = 20
FIRST_WITH_IDS = 6

NAME_OR_ID = "a topic is named by its name or by its id: one of them, not both or none"
NO_SUCH_ID = "there is no topic with this id"

Result = dict[str, Any]


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each topic, once ZooKeeper has deleted it."""
    version = request.version
    decoded = yield from control.decode_in_steps(KEY, version, request.body)
    results: list[Result] = []
    named = yield from _named(broker, decoded, version, results)
    times = Counter(name for name, _ in named)
    to_delete: dict[str, UUID | None] = {}
    """By name: the id, where the request named the topic by it. Another topic that has the name by then stays."""
    for name, topic_id in dict(named).items():
        yield
        if times[name] > 1:
            results.append(_result(name, ErrorCode.INVALID_REQUEST, NAMED_TWICE))
        elif topic_name.fault_of(name) is not None:  # nor may ZooKeeper's paths be made of it
            results.append(_outcome(False, name, topic_id))
        else:
            to_delete[name] = topic_id
    if not to_delete:
        return (yield from _answer(version, results))
    fan_in = FanIn[str, Result](
        broker,
        to_delete,
        timeout_ms=control.milliseconds(decoded.timeout),
        overdue=lambda name: _result(name, ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY, to_delete[name]),
        answer=lambda deleted: _answer(version, [*results, *deleted.values()]),
    )
    under_way, gone = set(to_delete), set[str]()

    def begin(name: str) -> None:
        asked_id, present_id = to_delete[name], broker.topic_id(name)

        def done(outcome: bool | Exception) -> None:
            under_way.discard(name)
            if outcome is True:
                gone.add(name)
            if gone and not under_way:
                broker.offsets.forget_topics(gone)  # in one search through the groups
            fan_in.put(name, _outcome(outcome, name, asked_id, present_id))

        broker.topics.delete(name, done, asked_id)

    return fan_in.start(begin)


def _named(
    broker: Broker, request: Any, version: int, results: list[Result]
) -> Generator[None, None, list[tuple[str, UUID | None]]]:
    """Return the topics' names, each with its id where the request named it by that. `results` gets what names no topic."""
    if version < FIRST_WITH_IDS:
        return [(str(name), None) for name in required(request.topic_names)]
    by_id: dict[UUID, str] = {}
    if any(topic.topic_id is not None for topic in required(request.topics)):
        for entry in broker.topics.catalog.topics.values():
            by_id[entry.topic_id] = entry.name
            yield
    named: list[tuple[str, UUID | None]] = []
    for topic in request.topics:
        yield
        if (topic.name is None) == (topic.topic_id is None):
            results.append(_result(topic.name, ErrorCode.INVALID_REQUEST, NAME_OR_ID, topic.topic_id))
        elif topic.name is not None:
            named.append((str(topic.name), None))
        elif topic.topic_id in by_id:
            named.append((by_id[topic.topic_id], topic.topic_id))
        else:
            results.append(_result(None, ErrorCode.UNKNOWN_TOPIC_ID, NO_SUCH_ID, topic.topic_id))
    return named


def _outcome(outcome: bool | Exception, name: str, asked_id: UUID | None, present_id: UUID | None = None) -> Result:
    if outcome is False and asked_id is not None:
        return _result(None, ErrorCode.UNKNOWN_TOPIC_ID, NO_SUCH_ID, asked_id)
    error, message = outcome_of(outcome, name, not_done="could not be deleted now")
    return _result(name, error, message, asked_id if asked_id is not None or outcome is not True else present_id)


def _result(name: str | None, error: ErrorCode, message: str | None, topic_id: UUID | None = None) -> Result:
    return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": message}


def _answer(version: int, results: Iterable[Mapping[str, Any]]) -> Generator[None, None, bytes]:
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "responses": results})
