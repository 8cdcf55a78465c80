"""Reads every file of a table again, some at each count, so that damage on the disk is found without a request.

A file of this machine is read, and its SHA-256 compared with the one that the count has noted. An object store keeps checksums of
its own, so there its ETag is compared: a look, no read. `<warehouse>/loads/<topic>/checked.json` says how far the turn has come.

Bookkeeping only: without it the turn starts again.
"""

import json
from collections.abc import Mapping

from ....runtime.logs import get_logger
from ...warehouse.file_rows import FileFacts
from ...warehouse.object_path import ObjectPath
from ...warehouse.store import StorePath, checksum, replace

log = get_logger(__name__)

NAME = "checked.json"
VERSION = 1
BYTES_PER_SECOND = 4 << 20
"""Of each table: a terabyte in three days. Reading and hashing so much takes about one hundredth of a processor."""
MOST_BYTES = 4 << 30
"""At one count, however long ago the last one was."""
LOOK_BYTES = 4 << 20
"""What a look at an object counts as: a request each, one a second."""


def rotten(
    folder: StorePath,
    files: Mapping[StorePath, FileFacts],
    known: Mapping[str, str],
    *,
    now_ms: int,
) -> dict[str, str]:
    """Return file → the mark of the bytes that it ought to have, of those found with others: in this turn, or before (`known`).

    `files`: those of either branch that were counted. One that looks changed, or is gone, is the count's own affair. Raises
    StoreUnreachable.
    """
    last, checked_ms = _turn(folder, now_ms)
    ordered = sorted(files, key=str)
    after = [path for path in ordered if str(path) > last] + [path for path in ordered if str(path) <= last]
    budget = min(MOST_BYTES, max(0, now_ms - checked_ms) * BYTES_PER_SECOND // 1000)
    found = {str(path): known[str(path)] for path in ordered if str(path) in known and not _has(path, known[str(path)])}
    for path in after:
        if budget <= 0:
            break
        facts = files[path]
        mark = facts.etag or facts.sha256
        budget -= LOOK_BYTES if facts.etag else facts.size_bytes
        last = str(path)
        if last not in found and facts.is_still(path) and not _has(path, mark):
            log.error("file_has_other_bytes", file=last)
            found[last] = mark
    replace(folder / NAME, json.dumps({"v": VERSION, "path": last, "at_ms": now_ms}).encode())
    return found


def _has(path: StorePath, mark: str) -> bool:
    """Return whether the file has the bytes of this ETag or SHA-256. One that is gone has none."""
    try:
        if isinstance(path, ObjectPath) and path.etag() == mark:
            return True
        return checksum(path) == mark
    except OSError:
        return False


def _turn(folder: StorePath, now_ms: int) -> tuple[str, int]:
    try:
        words = json.loads((folder / NAME).read_text())
        if words["v"] == VERSION and isinstance(words["path"], str) and isinstance(words["at_ms"], int):
            return words["path"], words["at_ms"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return "", now_ms
