"""The cache on disk: work continues while the registry is down, in new processes too. Threads and processes may share a folder.

A schema id never changes its meaning, so no entry becomes stale. The folder belongs to one registry: its name is derived from the
address. If another registry answers at that address (a platform created again), its first contradiction drops what the old one
said. Entries carry a checksum; a damaged one is logged, removed, and asked for again. Layout: `docs/FORMATS.md`.
"""

import hashlib
import json
import os
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from ...runtime.logs import get_library_logger
from ...runtime.whole_file import replace_file

log = get_library_logger(__name__)

VARIABLE = "HEADRACE_SCHEMA_CACHE"
OFF = "off"
DEFAULT: Final = "default"
"""Instead of a folder: the one that `default_folder` finds."""
Folder = Path | Literal["default"] | None
MOST_ENTRIES = 10_000
MOST_BYTES = 64 << 20
CHECK_EVERY = 32
"""Writes between two looks at the folder's size: the bounds may be exceeded by this many entries of each process."""
KEPT_SHARE = 0.9
"""What stays when the folder is full: so that not every further entry costs a look."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def default_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return where schemas are kept by default; None if `HEADRACE_SCHEMA_CACHE=off`, or there is no home folder.

    `HEADRACE_SCHEMA_CACHE`, else `$HEADRACE_HOME/schemas`, else `$XDG_CACHE_HOME/headrace/schemas`, else the same in `~/.cache`.
    """
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "")
    if named:
        return None if named.lower() == OFF else Path(named)
    if environment.get("HEADRACE_HOME"):
        return Path(environment["HEADRACE_HOME"]).absolute() / "schemas"
    if environment.get("XDG_CACHE_HOME"):
        return Path(environment["XDG_CACHE_HOME"]) / "headrace" / "schemas"
    try:
        return Path.home() / ".cache" / "headrace" / "schemas"
    except RuntimeError:
        return None


class CacheFolder:
    """`<folder>/<digest of the address>/<name>.json`, one small file for each entry; without a folder it holds nothing.

    Bounded in files and bytes: the oldest are removed. Troubles are logged once and end writing, never the caller's work.
    """

    def __init__(self, folder: Folder, url: str, *, most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        chosen = default_folder() if folder == DEFAULT else folder
        assert not isinstance(chosen, str)
        self.path = None if chosen is None else chosen / hashlib.sha256(url.encode()).hexdigest()[:16]
        self._url = url
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._check_every = max(1, min(CHECK_EVERY, most_entries // 100))
        self._unchecked = self._check_every
        self._lock = threading.Lock()
        self._is_open: bool | None = None
        """Whether the folder may be used; None before it was checked."""
        self._has_complained = False

    def get(self, name: str) -> Any:
        """Return the value stored as `name`, or None."""
        if self.path is None or not self._may_use(self.path):
            return None
        path = self.path / f"{name}.json"
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        try:
            return _value(raw)
        except ValueError as error:
            log.warning("schema_cache_entry_damaged", file=str(path), reason=str(error), remedy="removed; the registry is asked")
            with suppress(OSError):
                path.unlink()
            return None

    def put(self, name: str, value: Any, *, is_eternal: bool = True) -> None:
        """Store a value. `is_eternal`: a registry never changes it, so another one stored here came from another registry."""
        if self.path is None or self._has_complained or not self._may_use(self.path):
            return
        with self._lock:
            try:
                if not self.path.exists():
                    self._make(self.path)
                kept = self.get(name)
                if kept == value:
                    return
                if kept is not None and is_eternal:
                    log.warning("schema_cache_of_another_registry", folder=str(self.path), entry=name, registry=self._url)
                    self._drop(_oldest_first(self.path))
                replace_file(self.path / f"{name}.json", _file(value), mode=0o600)
                self._bound(self.path)
            except OSError as error:
                self._complain(str(error))

    def _may_use(self, path: Path) -> bool:
        """Return whether no other user may write there: one who can could change the meaning of a schema id."""
        if self._is_open is None:
            try:
                found = path.stat()
            except OSError:
                return True
            self._is_open = found.st_uid == os.geteuid() and not found.st_mode & OTHERS_MAY_WRITE
            if not self._is_open:
                self._complain("others may write there: give it to the user of this process, mode 0700")
        return self._is_open

    @staticmethod
    def _make(path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.mkdir(exist_ok=True, mode=0o700)

    def _bound(self, path: Path) -> None:
        self._unchecked += 1
        if self._unchecked < self._check_every:
            return
        self._unchecked = 0
        entries = _oldest_first(path)
        size_bytes = sum(size for _, size, _ in entries)
        if len(entries) <= self._most_entries and size_bytes <= self._most_bytes:
            return
        going = []
        left = len(entries)
        for entry in entries:
            if left <= self._most_entries * KEPT_SHARE and size_bytes <= self._most_bytes * KEPT_SHARE:
                break
            going.append(entry)
            left, size_bytes = left - 1, size_bytes - entry[1]
        self._drop(going)

    @staticmethod
    def _drop(entries: list[tuple[int, int, str]]) -> None:
        for _, _, path in entries:
            with suppress(OSError):
                os.unlink(path)

    def _complain(self, why: str) -> None:
        self._has_complained = True
        log.warning("schema_cache_not_written", folder=str(self.path), reason=why)


def _oldest_first(path: Path) -> list[tuple[int, int, str]]:
    """Return time, size and path of each entry; those that others remove meanwhile are left out."""
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            with suppress(OSError):
                facts = entry.stat()
                found.append((facts.st_mtime_ns, facts.st_size, entry.path))
    return sorted(found)


def _file(value: Any) -> bytes:
    text = json.dumps(value)
    return json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "value": text}).encode()


def _value(raw: bytes) -> Any:
    """Return the value of a file. Raises ValueError if it is not what was written."""
    words = json.loads(raw)
    if isinstance(words, str | int) and not isinstance(words, bool):
        # As it was written before entries had a checksum.
        return words
    if not isinstance(words, dict) or not isinstance(words.get("value"), str):
        raise ValueError("it holds no entry")
    if hashlib.sha256(words["value"].encode()).hexdigest() != words.get("sha256"):
        raise ValueError("its checksum is not that of its value")
    return json.loads(words["value"])
