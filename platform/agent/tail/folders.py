"""Finds files by glob patterns, without a watch of the kernel's: folders are listed again only when their time stamp moved.

A look at folders that did not change costs one stat each, and the next one is the later the more it cost.
"""

import os
import re
import stat as stats
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import NamedTuple

RACY_NS = 2_000_000_000
"""A folder that changed so shortly before it was listed may have changed again within the same tick of its clock."""
RELIST_MS = 60_000
"""For file systems whose folders keep no time."""
_WILD = re.compile(r"[*?[]")

FileKey = tuple[int, int]
"""Device and inode."""


def key_at(path: str) -> FileKey | None:
    """Return which file has this name; None if there is none, or it cannot be read."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


class Entry(NamedTuple):
    """A name in a folder."""

    name: str
    key: FileKey
    is_folder: bool
    is_link: bool


class _Listing(NamedTuple):
    mtime_ns: int
    listed_ns: int
    listed_ms: int
    entries: tuple[Entry, ...]


class Found(NamedTuple):
    """What is in the folders."""

    files: dict[str, FileKey]
    """Path → file, of the names that a pattern matches."""
    others: dict[FileKey, str]
    """File → path, of other names in the same folders."""
    links: set[str]
    """Those paths that are symbolic links."""
    unlisted: dict[str, str]
    """Folders that could not be listed → why."""


class Folders:
    """The folders of one section's patterns."""

    def __init__(
        self, patterns: Sequence[str], exclude: Sequence[str], *, now_ns: Callable[[], int], monotonic_ms: Callable[[], int]
    ) -> None:
        """`patterns` are absolute; `**` stands for any folders. `exclude` are patterns of names or of whole paths."""
        self._patterns = [_parts(pattern) for pattern in patterns]
        self._exclude = [re.compile(translate(pattern)) for pattern in exclude]
        self._now_ns = now_ns
        self._monotonic_ms = monotonic_ms
        self._listings: dict[str, _Listing] = {}
        self._used: set[str] = set()
        self._unlisted: dict[str, str] = {}
        self._is_changed = True
        self._also: frozenset[str] = frozenset()
        self._found = Found({}, {}, set(), {})

    def find(self, also: frozenset[str] = frozenset()) -> tuple[Found, bool]:
        """Return what is there, and whether it may differ from the last answer. `also`: further folders whose files may be
        known by another name (the targets of symbolic links).
        """
        self._is_changed |= also != self._also
        self._also = also
        for folder in [*self._listings]:
            self._refresh(folder)
        if not self._is_changed and not self._unlisted:
            return self._found, False
        self._used, self._unlisted = set(), {}
        files: dict[str, FileKey] = {}
        links: set[str] = set()
        for parts in self._patterns:
            self._expand(parts.root, parts.steps, files, links)
        others = {}
        for folder in sorted(self._used | also):
            for entry in self._list(folder):
                if not entry.is_folder and (path := f"{folder}/{entry.name}") not in files:
                    others[entry.key] = path
        for folder in self._listings.keys() - self._used - also:
            del self._listings[folder]
        self._found = Found(files, others, links, self._unlisted)
        self._is_changed = False
        return self._found, True

    def _expand(self, folder: str, steps: Sequence[re.Pattern[str] | None], files: dict[str, FileKey], links: set[str]) -> None:
        step, rest = steps[0], steps[1:]
        if step is None:
            self._expand(folder, rest, files, links)
        for entry in self._list(folder):
            path = f"{folder}/{entry.name}"
            if step is None:
                # A link may lead back up: `**` follows none.
                if entry.is_folder and not entry.is_link:
                    self._expand(path, steps, files, links)
            elif step.fullmatch(entry.name):
                if rest and entry.is_folder:
                    self._expand(path, rest, files, links)
                elif not rest and not entry.is_folder and not self._is_excluded(entry.name, path):
                    files[path] = entry.key
                    if entry.is_link:
                        links.add(path)

    def _is_excluded(self, name: str, path: str) -> bool:
        return any(pattern.fullmatch(name) or pattern.fullmatch(path) for pattern in self._exclude)

    def _list(self, folder: str) -> tuple[Entry, ...]:
        self._used.add(folder)
        if folder not in self._listings:
            self._refresh(folder)
        listing = self._listings.get(folder)
        return () if listing is None else listing.entries

    def forget(self) -> None:
        """List every folder again next time: a link's target has changed, say."""
        self._listings.clear()
        self._is_changed = True

    def _refresh(self, folder: str) -> None:
        try:
            listed_ns, listed_ms = self._now_ns(), self._monotonic_ms()
            mtime_ns = os.stat(folder or "/").st_mtime_ns
            old = self._listings.get(folder)
            if (
                old is not None
                and old.mtime_ns == mtime_ns
                and old.mtime_ns < old.listed_ns - RACY_NS
                and listed_ms - old.listed_ms < RELIST_MS
            ):
                return
            entries = _entries(folder)
            self._listings[folder] = _Listing(mtime_ns, listed_ns, listed_ms, entries)
            self._is_changed |= old is None or old.entries != entries
        except FileNotFoundError:
            self._is_changed |= self._listings.pop(folder, None) is not None
        except OSError as error:
            self._unlisted[folder] = f"the folder cannot be listed: {error.strerror}"
            self._is_changed |= self._listings.pop(folder, None) is not None


class _Parts(NamedTuple):
    root: str
    steps: tuple[re.Pattern[str] | None, ...]
    """One a level below the root; None is `**`."""


def _parts(pattern: str) -> _Parts:
    names = os.path.normpath(pattern).split("/")[1:]
    fixed = 0
    while fixed < len(names) - 1 and not _WILD.search(names[fixed]):
        fixed += 1
    root = "/" + "/".join(names[:fixed]) if fixed else ""
    return _Parts(root, tuple(None if name == "**" else re.compile(_shell(name)) for name in names[fixed:]))


def _shell(name: str) -> str:
    # As in a shell: a star does not find hidden names.
    return translate(name) if name.startswith(".") or not _WILD.match(name) else rf"(?!\.){translate(name)}"


def _entries(folder: str) -> tuple[Entry, ...]:
    device = os.stat(folder or "/").st_dev
    entries = []
    with os.scandir(folder or "/") as found:
        for one in found:
            try:
                if one.is_symlink():
                    # Its target, as far as there is one.
                    stat = one.stat()
                    entries.append(Entry(one.name, (stat.st_dev, stat.st_ino), stats.S_ISDIR(stat.st_mode), True))
                elif one.is_dir(follow_symlinks=False):
                    entries.append(Entry(one.name, (device, one.inode()), True, False))
                elif one.is_file(follow_symlinks=False):
                    entries.append(Entry(one.name, (device, one.inode()), False, False))
            except OSError:
                continue
    return tuple(entries)
