"""The event that a file of a `[[directory]]` becomes. Pure."""

import hashlib
from typing import Any

from ...sdk.event_schema import event_schema

DROPPED_FILE_SCHEMA = event_schema(
    "DroppedFile",
    [
        {
            "name": "id",
            "type": "string",
            "doc": "The key for de-duplication: of host, folder, name, time and content. A file that is sent again has it again.",
        },
        {"name": "directory", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "modified", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "sha256", "type": "string", "doc": "Of the content, hex."},
        {"name": "content", "type": "bytes"},
    ],
    doc="One file that was dropped into a directory.",
)


def dropped_file(*, host: str, directory: str, name: str, mtime_ns: int, content: bytes) -> dict[str, Any]:
    """Return the event of a file, without event time and server."""
    digest = hashlib.sha256(content).hexdigest()
    words = "\0".join((host, directory, name, str(mtime_ns), digest))
    return {
        "id": hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:32],
        "directory": shown(directory),
        "name": shown(name),
        "modified": max(0, mtime_ns // 1_000_000),
        "sha256": digest,
        "content": content,
    }


def shown(name: str) -> str:
    r"""Return a file's name as text: bytes that are no UTF-8 as `\xhh`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
