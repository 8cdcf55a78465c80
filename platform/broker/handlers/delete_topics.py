"""DeleteTopics, key 20, versions 0-5 (6 names topics by id): a topic and its data go for good."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from .. import topic_name
from ..later import Later
from .context import Context, required
from .gathering import NAMED_TWICE, STILL_UNDER_WAY, Gathering, outcome_of

KEY = 20


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return what became of each topic, once it is out of ZooKeeper."""
    request = control.decode_request(KEY, version, body)
    named = Counter(str(name) for name in required(request.topic_names))
    results: dict[str, dict[str, Any]] = {}
    to_delete: list[str] = []
    for name, times in named.items():
        if times > 1:
            results[name] = _result(name, ErrorCode.INVALID_REQUEST, NAMED_TWICE)
        elif topic_name.fault_of(name) is not None:  # nor may ZooKeeper's paths be made of it
            results[name] = _outcome(False, name)
        else:
            to_delete.append(name)
    if not to_delete:
        return _answer(version, results)
    gathering = Gathering[str, dict[str, Any]](
        context,
        to_delete,
        timeout_ms=control.milliseconds(request.timeout),
        overdue=lambda name: _result(name, ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda deleted: _answer(version, {**results, **deleted}),
    )

    def begin(name: str) -> None:
        def done(outcome: bool | Exception) -> None:
            if outcome is True:
                context.offsets.forget_topic(name)
            gathering.put(name, _outcome(outcome, name))

        context.topics.delete(name, done)

    return gathering.start(begin)


def _outcome(outcome: bool | Exception, name: str) -> dict[str, Any]:
    return _result(name, *outcome_of(outcome, name, not_done="could not be deleted now"))


def _result(name: str, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "error_code": error, "error_message": message}


def _answer(version: int, results: Mapping[str, Mapping[str, Any]]) -> bytes:
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "responses": list(results.values())})
