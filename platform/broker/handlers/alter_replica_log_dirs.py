"""AlterReplicaLogDirs, key 34, versions 1-2: a broker has one folder, and no partition moves to another.

A request for the folder that there is succeeds; any other folder is unknown."""

from pathlib import Path
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .request import Request

KEY = 34


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each partition."""
    decoded = yield from control.decode_in_steps(KEY, request.version, request.body)
    folder = Path(broker.settings.data)
    results = (
        {
            "topic_name": topic.name,
            "partitions": (
                _partition(broker, name, int(index), is_ours)
                for name, is_ours in ((str(topic.name), Path(one.path) == folder),)
                for index in required(topic.partitions)
            ),
        }
        for one in required(decoded.dirs)
        for topic in required(one.topics)
    )
    return (yield from control.encode_in_steps(KEY, request.version, {"throttle_time_ms": 0, "results": results}))


def _partition(broker: Broker, topic: str, index: int, is_ours: bool) -> dict[str, Any]:
    if broker.partitions.get(topic, index) is None:
        error = broker.not_here(topic, index)
    else:
        error = ErrorCode.NONE if is_ours else ErrorCode.LOG_DIR_NOT_FOUND
    return {"partition_index": index, "error_code": error}
