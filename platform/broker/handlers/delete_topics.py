"""DeleteTopics, key 20, versions 0-6: a topic and its data go for good.

6 may name topics by id, of which there are none here: such a one is UNKNOWN_TOPIC_ID. It is for clients that know no other."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

from ...wire import control
from ...wire.errors import ErrorCode
from .. import topic_name
from ..slices import Steps
from .context import Context, required
from .gathering import NAMED_TWICE, STILL_UNDER_WAY, Gathering, outcome_of

KEY = 20
FIRST_WITH_IDS = 6

NAME_OR_ID = "a topic is named by its name or by its id: one of them, not both or none"
NO_IDS = "topics have no ids here; name it by its name"


def handle(context: Context, version: int, body: memoryview, peer: str) -> Steps:
    """Return what became of each topic, once it is out of ZooKeeper."""
    request = yield from control.decode_in_steps(KEY, version, body)
    results: list[dict[str, Any]] = []
    named = Counter(_names(request, version, results))
    to_delete: list[str] = []
    for name, times in named.items():
        yield
        if times > 1:
            results.append(_result(name, ErrorCode.INVALID_REQUEST, NAMED_TWICE))
        elif topic_name.fault_of(name) is not None:  # nor may ZooKeeper's paths be made of it
            results.append(_outcome(False, name))
        else:
            to_delete.append(name)
    if not to_delete:
        return (yield from _answer(version, results))
    gathering = Gathering[str, dict[str, Any]](
        context,
        to_delete,
        timeout_ms=control.milliseconds(request.timeout),
        overdue=lambda name: _result(name, ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda deleted: _answer(version, [*results, *deleted.values()]),
    )

    def begin(name: str) -> None:
        def done(outcome: bool | Exception) -> None:
            if outcome is True:
                context.offsets.forget_topic(name)
            gathering.put(name, _outcome(outcome, name))

        context.topics.delete(name, done)

    return gathering.start(begin)


def _names(request: Any, version: int, results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the names; what cannot be deleted by name is answered in `results`."""
    if version < FIRST_WITH_IDS:
        yield from (str(name) for name in required(request.topic_names))
        return
    for topic in required(request.topics):
        if (topic.name is None) == (topic.topic_id is None):
            results.append(_result(topic.name, ErrorCode.INVALID_REQUEST, NAME_OR_ID, topic.topic_id))
        elif topic.name is None:
            results.append(_result(None, ErrorCode.UNKNOWN_TOPIC_ID, NO_IDS, topic.topic_id))
        else:
            yield str(topic.name)


def _outcome(outcome: bool | Exception, name: str) -> dict[str, Any]:
    return _result(name, *outcome_of(outcome, name, not_done="could not be deleted now"))


def _result(name: str | None, error: ErrorCode, message: str | None, topic_id: UUID | None = None) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": message}


def _answer(version: int, results: Iterable[Mapping[str, Any]]) -> Generator[None, None, bytes]:
    return control.encode_in_steps(KEY, version, {"throttle_time_ms": 0, "responses": results})
