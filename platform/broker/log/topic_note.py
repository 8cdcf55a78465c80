"""The small file `partition.metadata`: of which topic a partition's folder is. Its format is Kafka's.

    version: 0\\n
    topic_id: <the id, URL-safe base64 without padding>\\n

A folder without a readable note is of an older version of this broker, or lost it in a power cut. It is taken for the topic that
has its name now, and gets a note.
"""

import base64
import os
from pathlib import Path
from uuid import UUID

NAME = "partition.metadata"
LARGEST_BYTES = 1_024


def read(folder: Path) -> UUID | None:
    """Return the id in a folder's note; None when there is no readable note. Raises OSError."""
    try:
        with (folder / NAME).open("rb") as file:
            lines = file.read(LARGEST_BYTES).decode("ascii", "replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    said = dict(line.partition(": ")[::2] for line in lines)
    if said.get("version") != "0":
        return None
    try:
        raw = base64.urlsafe_b64decode(said.get("topic_id", "") + "==")
    except ValueError:
        return None
    return UUID(bytes=raw) if len(raw) == 16 else None


def write(folder: Path, topic_id: UUID, *, is_durable: bool) -> None:
    """Write the note. `is_durable`: wait until it is on disk. Raises OSError."""
    word = base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=")
    scratch = folder / f"{NAME}.new"
    with scratch.open("wb") as file:
        file.write(b"version: 0\ntopic_id: %s\n" % word)
        if is_durable:
            file.flush()
            os.fsync(file.fileno())
    scratch.rename(folder / NAME)
