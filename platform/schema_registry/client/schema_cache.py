"""The client's caches: one in memory, bounded, and one in a folder, so that work continues while the registry is down.

A schema id never changes its meaning, so nothing in the folder becomes stale. The folder belongs to one registry: its name is
derived from the address. Files are written atomically. A damaged file counts as absent; a folder that cannot be written is
ignored.
"""

import hashlib
import json
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...runtime.logs import get_library_logger
from ...runtime.whole_file import replace_file

log = get_library_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A map of at most `limit` entries; the least recently used is dropped first. Threads may share one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._limit:
                self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)


class CacheFolder:
    """`<folder>/<digest of the address>/<name>.json`, one small file for each entry; without a folder it holds nothing.

    At most `limit` files. Further entries are kept in memory only, which is logged once.
    """

    def __init__(self, folder: Path | None, url: str, limit: int = 10_000) -> None:
        self._folder = None if folder is None else folder / hashlib.sha256(url.encode()).hexdigest()[:16]
        self._limit = limit
        self._has_complained = False

    def get(self, name: str) -> Any:
        """Return the value stored as `name`, or None."""
        if self._folder is None:
            return None
        try:
            return json.loads((self._folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None

    def put(self, name: str, words: Any) -> None:
        if self._folder is None or self._has_complained:
            return
        path = self._folder / f"{name}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not path.exists() and len(os.listdir(self._folder)) >= self._limit:
                self._complain(f"it holds {self._limit} files")
                return
            replace_file(path, json.dumps(words).encode())
        except OSError as error:
            self._complain(str(error))

    def _complain(self, why: str) -> None:
        self._has_complained = True
        log.warning("schema_cache_not_written", folder=str(self._folder), reason=why)
