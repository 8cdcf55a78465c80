"""DeleteTopics, key 20, versions 0-5 (6 names topics by id): a topic and its data go for good."""

from collections.abc import Mapping
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..later import Later
from .context import Context, required
from .gathering import STILL_UNDER_WAY, Gathering, code_of

KEY = 20


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return what became of each topic, once it is out of ZooKeeper."""
    request = control.decode_request(KEY, version, body)
    names = list(dict.fromkeys(str(name) for name in required(request.topic_names)))
    if not names:
        return _answer(version, {})
    gathering = Gathering[str, dict[str, Any]](
        context,
        names,
        timeout_ms=control.milliseconds(request.timeout),
        overdue=lambda name: _result(name, ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda results: _answer(version, results),
    )

    def begin(name: str) -> None:
        def done(outcome: bool | Exception) -> None:
            if outcome is True:
                context.offsets.forget_topic(name)
            gathering.put(name, _outcome(name, outcome))

        context.topics.delete(name, done)

    return gathering.start(begin)


def _outcome(name: str, outcome: bool | Exception) -> dict[str, Any]:
    if outcome is True:
        return _result(name, ErrorCode.NONE, None)
    if outcome is False:
        return _result(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return _result(name, code_of(outcome), f"topic {name!r} could not be deleted now: {outcome}")


def _result(name: str, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "error_code": error, "error_message": message}


def _answer(version: int, results: Mapping[str, Mapping[str, Any]]) -> bytes:
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "responses": list(results.values())})
