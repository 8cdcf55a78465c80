"""DeleteTopics, key 20, versions 1-5 (6 names topics by id): a topic and its data go for good."""

from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from ..later import Later
from .context import Context, required, respond

KEY = 20


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes | Later:
    """Return what became of each topic, once it is out of ZooKeeper."""
    request = control.decode_request(KEY, version, body)
    results: dict[str, dict[str, Any]] = {}
    waiting = {str(name) for name in required(request.topic_names)}
    if not waiting:
        return _answer(version, results)
    later = Later()
    for name in sorted(waiting):

        def done(outcome: bool | Exception, name: str = name) -> None:
            waiting.discard(name)
            if outcome is True:
                results[name] = _result(name, ErrorCode.NONE, None)
            elif outcome is False:
                results[name] = _result(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            else:
                results[name] = _result(name, ErrorCode.REQUEST_TIMED_OUT, f"topic {name!r} could not be deleted now: {outcome}")
            if not waiting:
                later.complete(respond(_answer(version, results)))

        context.topics.delete(name, done)
    return later


def _result(name: str, error: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"name": name, "error_code": error, "error_message": message}


def _answer(version: int, results: dict[str, dict[str, Any]]) -> bytes:
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "responses": list(results.values())})
