"""DescribeLogDirs, key 35, versions 1-4: how large each partition is here, and how much room the disk has.

One folder holds everything. Sizes are the bytes in the files, holes left out."""

import os
from typing import Any

from ...wire import control, log_dirs
from ...wire.errors import ErrorCode
from .context import Context, required

KEY = 35


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes:
    """Return the folder with the partitions asked for, all for null; those that are not here are left out, as Kafka does."""
    request = control.decode_request(KEY, version, body)
    folder = context.settings.data
    error, total_bytes, usable_bytes = ErrorCode.NONE, -1, -1
    try:
        room = os.statvfs(folder)
        total_bytes, usable_bytes = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    except OSError:
        error = ErrorCode.KAFKA_STORAGE_ERROR
    sizes = {} if error else _sizes(context, request.topics)
    return log_dirs.encode_response(
        version, error=error, folder=str(folder), sizes=sizes, total_bytes=total_bytes, usable_bytes=usable_bytes
    )


def _sizes(context: Context, wanted: Any) -> dict[str, list[tuple[int, int]]]:
    table = context.partitions
    if wanted is None:
        found = {topic: list(table.of_topic(topic).values()) for topic in table.topics()}
    else:
        found = {}
        for topic in wanted:
            name = str(topic.topic)
            asked = dict.fromkeys(int(index) for index in required(topic.partitions))
            found[name] = [partition for index in asked if (partition := table.get(name, index)) is not None]
    return {name: [(one.index, one.log.size_bytes) for one in partitions] for name, partitions in found.items() if partitions}
