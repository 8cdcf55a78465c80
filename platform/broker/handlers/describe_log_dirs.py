"""DescribeLogDirs, key 35, versions 0-4: the size of each partition here, and how much room the disk has.

One folder holds everything. A size is the bytes in the partition's files, without holes."""

import os
from collections.abc import Generator
from typing import Any

from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from .broker import Broker, required
from .request import Request

KEY = 35


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the folder with the partitions of the request; null means all. Partitions that are not here are left out, as in
    Kafka.
    """
    decoded = yield from control.decode_in_steps(KEY, request.version, request.body)
    folder = broker.settings.data
    error, total_bytes, usable_bytes = ErrorCode.NONE, -1, -1
    try:
        room = os.statvfs(folder)
        total_bytes, usable_bytes = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    except OSError:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    sizes = {} if error else (yield from _sizes(broker, decoded.topics))
    topics = (
        {"name": name, "partitions": (_partition(index, size_bytes) for index, size_bytes in each)}
        for name, each in sizes.items()
    )
    result = {"error_code": error, "log_dir": str(folder), "topics": topics}
    room_there = {"total_bytes": total_bytes, "usable_bytes": usable_bytes}
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "results": [result | room_there]}
    return (yield from control.encode_in_steps(KEY, request.version, message))


def _partition(index: int, size_bytes: int) -> dict[str, Any]:
    return {"partition_index": index, "partition_size": size_bytes, "offset_lag": 0, "is_future_key": False}


def _sizes(broker: Broker, wanted: Any) -> Generator[None, None, dict[str, list[tuple[int, int]]]]:
    """Return the sizes of the logs that are kept here, those of followers too."""
    asked: dict[str, set[int]] | None = None
    if wanted is not None:
        asked = {}
        for topic in wanted:
            asked.setdefault(str(topic.topic), set()).update(int(index) for index in required(topic.partitions))
            yield
    sizes: dict[str, list[tuple[int, int]]] = {}
    for partition in sorted(broker.partitions.kept(), key=lambda one: (one.topic, one.index)):
        if asked is None or partition.index in asked.get(partition.topic, ()):
            sizes.setdefault(partition.topic, []).append((partition.index, partition.log.size_bytes))
        yield
    return sizes
