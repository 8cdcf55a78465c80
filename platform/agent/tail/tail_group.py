"""The files of one `[[tail]]` section: finds them, looks at them, knows them again after rotation, compression and restart.

A file is known by device and inode, checked by the fingerprint of its first bytes, so that neither a new name nor a recycled
inode deceives. Each scan costs a stat for each file that is due (see `look_times`) and one for each folder.
"""

import os
import stat as stats
from collections.abc import Iterable, Mapping, Sequence

from ...errors import HeadraceError
from ..errors import SourceUnreadable
from ..source import AuditRun, Position, Scan, Source
from .comparisons import NEW, Comparisons
from .content import ends_a_line, is_compressed
from .folders import FileKey, Folders, Found, key_at
from .head import NOTHING
from .look_times import LookTimes, pause_ms
from .position import IGNORED, Place, new_place
from .section import Section
from .tailed_file import TailedFile

FOLDER_LOOK_MS = 500
FOLDER_SHARE = 200
"""Folders are looked at again after so many times as long as the last look took."""


class TailGroup:
    """A `SourceGroup`. Used by one thread."""

    def __init__(self, section: Section, folders: Folders, *, begins_at_end: bool, is_copied: bool, most_files: int) -> None:
        """`begins_at_end`: what is in the files at the first scan ever is not read. `is_copied`: rotation copies and
        truncates. At most `most_files` are known at once.
        """
        self._section = section
        self._folders = folders
        self._begins_at_end = begins_at_end
        self._most_files = most_files
        self._files: dict[str, TailedFile] = {}
        self._by_key: dict[FileKey, TailedFile] = {}
        self._headless: dict[str, TailedFile] = {}
        """Files in which something stands that nobody could look at yet: without a fingerprint none could be known again."""
        self._looks: LookTimes[TailedFile] = LookTimes()
        self._comparisons = Comparisons(section, is_copied=is_copied)
        self._copies: dict[FileKey, TailedFile] = {}
        """Files that hold what a known one holds, and which wait until that one is gone."""
        self._waiting: dict[FileKey, str] = {}
        """New files that are still to be distinguished, by path."""
        self._unopened: dict[str, str] = {}
        self._names: Mapping[str, FileKey] = {}
        """The paths that the patterns match."""
        self._unlisted: Mapping[str, str] = {}
        self._link_folders: frozenset[str] = frozenset()
        """Where the targets of symbolic links stand, and stay under other names when they are rotated."""
        self._is_first_scan = True
        self._folders_due_ms = 0
        self._is_relist_due = False
        self._is_full = False
        """There are more files than may be known."""

    @property
    def name(self) -> str:
        return self._section.name

    @property
    def topics(self) -> Sequence[str]:
        return (self._section.topic,)

    @property
    def run(self) -> AuditRun:
        return self._section.run

    @property
    def events(self) -> Mapping[str, int]:
        """Return what happened to files, by name."""
        return dict(self._section.events)

    @property
    def file_count(self) -> int:
        return len(self._files)

    def scan(self, known: Mapping[str, Position]) -> Scan:
        """Return the files that may have something to read, the oldest first. `known` counts in the first scan only."""
        now_ms = self._section.clock.monotonic_ms()
        self._unopened = {}
        if self._is_first_scan:
            self._restore(known)
        begins_at_end = self._is_first_scan and self._begins_at_end and not self._files
        if now_ms >= self._folders_due_ms:
            self._look_at_folders(now_ms, begins_at_end)
        self._unopened.update(self._unlisted)
        if self._is_full:
            self._unopened[self.name] = f"it has more than {self._most_files} files: raise most_files, or match fewer"
        changed = {file.name: file for file in self._distinguish(now_ms, begins_at_end)} | self._headless
        for file in [*self._looks.take_due(now_ms)]:
            if self._look(file, now_ms) or self._is_first_scan:
                changed[file.name] = file
            if not file.is_announced and file.is_given_up:
                file.remove()  # empty all its life
            elif file.name in self._files:
                self._looks.set(file, now_ms + pause_ms(now_ms - file.changed_ms))
        if self._is_relist_due:
            self._folders.forget()
            self._folders_due_ms, self._is_relist_due = 0, False
        self._is_first_scan = False
        named = sorted((file for file in changed.values() if self._announce(file, begins_at_end)), key=_age)
        return Scan(changed=named, unopened=dict(self._unopened))

    def _announce(self, file: TailedFile, begins_at_end: bool) -> bool:
        """Return whether the agent is to know a file: not before something is in it that it can be known again by."""
        if not file.is_announced and (file.size or begins_at_end):
            self._refresh_head(file)
            if begins_at_end or file.head != NOTHING:
                file.announce()
                self._headless.pop(file.name, None)
            elif not file.is_compressed:
                self._headless[file.name] = file
                self._unopened.setdefault(file.path, "it could not be looked into yet")
        return file.is_announced

    def forget(self, file: TailedFile) -> None:
        """Drop a file that has ended."""
        self._files.pop(file.name, None)
        self._headless.pop(file.name, None)
        if self._by_key.get(file.key) is file:
            del self._by_key[file.key]
        self._looks.remove(file)
        self._is_relist_due |= self._is_full

    doorbell = None

    def rung(self) -> Sequence[Source]:
        return ()

    def enrolled(self, topics: Sequence[str]) -> None:
        """Nothing to note: a file does not ask whether it is waited for."""

    def close(self) -> None:
        self._section.open_files.close_all()

    def _restore(self, known: Mapping[str, Position]) -> None:
        for name, position in known.items():
            if not name.startswith(f"{self.name}/"):
                continue
            place = Place.from_position(position)
            file = TailedFile(self._section, self, name, place.path, place)
            file.is_announced = True
            self._add(file)

    def _add(self, file: TailedFile) -> None:
        self._files[file.name] = file
        holder = self._by_key.get(file.key)
        # Of two that name one inode, the later one has it: the earlier one's content was replaced, or its inode recycled.
        if holder is None or _met_ms(holder) <= _met_ms(file):
            self._by_key[file.key] = file
        self._looks.set(file, 0)

    def _look_at_folders(self, now_ms: int, begins_at_end: bool) -> None:
        found, is_changed = self._folders.find(self._link_folders)
        self._unlisted = found.unlisted
        if is_changed:
            self._names = found.files
            self._place(found, now_ms)
            self._link_folders = frozenset(os.path.dirname(os.path.realpath(path)) for path in found.links)
        took_ms = self._section.clock.monotonic_ms() - now_ms
        self._folders_due_ms = now_ms + max(FOLDER_LOOK_MS, took_ms * FOLDER_SHARE)

    def _place(self, found: Found, now_ms: int) -> None:
        """Bring what is in the folders together with what is known."""
        present = {key: path for path, key in reversed(found.files.items())}
        for key, other in found.others.items():
            if key in self._by_key:
                present.setdefault(key, other)
        for file in self._files.values():
            holds_key = self._by_key.get(file.key) is file
            now_at = present.get(file.key) if holds_key else None
            if now_at is not None and not file.may_be_at(now_at, is_asked_for=now_at in found.files):
                del self._by_key[file.key]
                now_at, holds_key = None, False
            is_excluded = now_at == file.first_path and now_at not in found.files  # by other settings than when it was met
            if now_at is None or is_excluded:
                # A folder that is listed while names change may lack one that is there all the time.
                if is_excluded or not holds_key or key_at(file.path) != file.key:
                    self._note_gone(file, now_ms)
                continue
            has_moved = file.gone_since_ms is not None or file.path != now_at
            if has_moved:
                file.path, file.gone_since_ms = now_at, None
                self._looks.set(file, now_ms)
            if has_moved or (not file.is_rotated and (self._is_first_scan or file.is_behind())):
                # Anew: with a recycled inode it may be at a name that is written to, and a rest there is not yet a line.
                has_left = now_at not in found.files or not (now_at == file.first_path or self._is_rotated(file.first_path))
                file.is_rotated = has_left or self._is_rotated(now_at)
        self._waiting = {}
        self._is_full = False
        for path, key in found.files.items():
            if key in self._by_key or key in self._waiting:
                continue
            if len(self._files) + len(self._waiting) >= self._most_files:
                self._is_full = True
                continue
            self._waiting[key] = path
        self._comparisons.forget_all_but(self._waiting.keys())
        for gone in self._copies.keys() - self._waiting.keys():
            del self._copies[gone]

    def _note_gone(self, file: TailedFile, now_ms: int) -> None:
        if file.gone_since_ms is not None:
            return
        file.gone_since_ms = now_ms
        self._section.open_files.pin(file)
        if self._section.open_files.of(file) is None:
            if file.size > file.place.offset and not file.is_cut and not file.is_compressed:
                self._section.note("deleted_unread", file.path, unread_bytes=file.size - file.place.offset)
            file.is_drained = True
        self._looks.set(file, now_ms)

    def _distinguish(self, now_ms: int, begins_at_end: bool) -> Iterable[TailedFile]:
        """Yield the waiting files that are found to be new, and those that take up a known one's content."""
        is_compared = not begins_at_end and any(map(self._comparisons.may_be_a_copy, self._waiting.values()))
        if is_compared:
            for one in [*self._files.values()]:
                # One that was empty when it was last looked at may be the original by now; so may one that took another's inode.
                if one.is_behind() or one.gone_since_ms is not None or one.head == NOTHING or self._may_be_another(one):
                    self._refresh_head(one)
            for one in [*self._files.values()]:
                if one.head == NOTHING:
                    self._refresh_head(one)
        self._comparisons.begin_scan(self._files.values() if is_compared else ())
        # A copy comes behind the file whose copy it may be: both may be new.
        for key, path in sorted(self._waiting.items(), key=lambda one: (is_compressed(one[1]), self._is_rotated(one[1]))):
            if key in self._copies:
                original = self._copies[key]
                if original.is_left:
                    yield self._attach(original, path, key)
                elif original.name not in self._files:
                    del self._copies[key]
                continue
            try:
                verdict = NEW if begins_at_end else self._comparisons.compare(key, path, is_rotated=self._is_rotated(path))
            except (OSError, HeadraceError) as error:
                self._unopened[path] = str(error)
                continue
            same = verdict.original
            if not verdict.is_decided:
                if verdict.why:
                    self._unopened[path] = verdict.why
                for one in verdict.may_be:
                    if one.gone_since_ms is not None:
                        one.gone_since_ms = now_ms  # it is not forgotten before
            elif same is None:
                for file in self._new(path, key, begins_at_end):
                    if is_compared:
                        self._refresh_head(file)
                        self._comparisons.add(file)
                    yield file
            elif same.is_left:
                yield self._attach(same, path, key)
            else:
                self._copies[key] = same

    def _may_be_another(self, file: TailedFile) -> bool:
        """Return whether a file that is not open was written since the last look: its inode may be another one's by now."""
        if file.is_cut or self._section.open_files.of(file) is not None:
            return False
        try:
            stat = os.stat(file.path)
        except OSError:
            return False
        return (stat.st_size, stat.st_mtime_ns) != (file.size, file.mtime_ns)

    def _refresh_head(self, file: TailedFile) -> None:
        try:
            file.refresh_head()
        except SourceUnreadable as error:
            self._unopened[file.path] = str(error)

    def _attach(self, original: TailedFile, path: str, key: FileKey) -> TailedFile:
        if self._by_key.get(original.key) is original:
            del self._by_key[original.key]
        original.attach(path, key)
        self._by_key[key] = original
        self._waiting.pop(key, None)
        self._copies.pop(key, None)
        self._looks.set(original, self._section.clock.monotonic_ms())
        return original

    def _new(self, path: str, key: FileKey, begins_at_end: bool) -> Iterable[TailedFile]:
        """Yield a file that is read from its beginning, or from its end; none if its name leads elsewhere meanwhile."""
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            return
        if (stat.st_dev, stat.st_ino) != key or not stats.S_ISREG(stat.st_mode):
            self._is_relist_due |= stats.S_ISREG(stat.st_mode)
            return
        offset = 0
        if begins_at_end:
            offset = IGNORED if is_compressed(path) else stat.st_size
        file = self._begin(path, key, offset)
        file.grew(stat.st_size, stat.st_mtime_ns)
        yield file

    def _is_rotated(self, path: str) -> bool:
        """Return whether a file has the name of another one and a suffix: `access.log.1`, `access.log-20261123`."""
        return any(path[at] in ".-" and path[:at] in self._names for at in range(len(path) - 1, path.rfind("/") + 1, -1))

    def _begin(self, path: str, key: FileKey, offset: int = 0) -> TailedFile:
        now_ms = self._section.clock.now_ms()
        name = f"{self.name}/{os.path.basename(path)}#{key[1]:x}.{now_ms:x}"
        while name in self._files:
            now_ms += 1
            name = f"{self.name}/{os.path.basename(path)}#{key[1]:x}.{now_ms:x}"
        is_inside = 0 < offset < IGNORED and not ends_a_line(path, offset)
        file = TailedFile(self._section, self, name, path, new_place(path, key, offset=offset, is_inside_line=is_inside))
        file.is_rotated = self._is_rotated(path)
        self._waiting.pop(key, None)
        self._add(file)
        return file

    def _look(self, file: TailedFile, now_ms: int) -> bool:
        """Return whether there may be something to read, or the file has ended."""
        content = self._section.open_files.of(file)
        if file.gone_since_ms is not None and content is None:
            return file.is_behind() or (file.is_given_up and file.is_ended(file.place.to_position()))
        try:
            stat = os.stat(file.path) if content is None else content.stat()
        except FileNotFoundError:
            self._folders_due_ms = 0
            return file.is_behind()
        except OSError as error:
            self._unopened[file.path] = f"it cannot be looked at: {error.strerror}"
            self._section.note("not_readable", file.path, reason=str(error))
            return False
        if (stat.st_dev, stat.st_ino) != file.key:
            # Its name leads to another file: its own may have moved. A link's target moves without a trace in the link's folder.
            self._is_relist_due = True
            return file.is_behind()
        if (stat.st_size, stat.st_mtime_ns) != (file.size, file.mtime_ns):
            if not file.is_compressed and stat.st_size <= file.place.offset < IGNORED and not file.is_cut:
                self._verify(file, stat)
            if file.is_compressed and not file.is_announced and file.mtime_ns:
                file.cut()  # nothing was in it; what is may be the content of one that is known
                return False
            if file.is_compressed:
                file.is_drained = False
                self._refresh_head(file)  # it may be another one, with a recycled inode
            file.grew(stat.st_size, stat.st_mtime_ns)
        return file.is_behind() or (file.is_given_up and file.is_ended(file.place.to_position()))

    def _verify(self, file: TailedFile, stat: os.stat_result) -> None:
        """Look whether a file that did not grow, and yet was written, is another one now."""
        try:
            is_same = stat.st_size == file.place.offset and file.has_its_head()
        except SourceUnreadable as error:
            self._unopened[file.path] = str(error)
            return
        if not is_same:
            file.cut()

    def cut(self, file: TailedFile) -> None:
        """A file's content was replaced in place: what is in it now is a file of its own."""
        if self._by_key.get(file.key) is file:
            del self._by_key[file.key]
            if file.is_compressed:
                self._folders.forget()  # it may be the copy of a file that is known
                self._folders_due_ms = 0
            elif file.gone_since_ms is None and file.path in self._names:
                # At any other name its inode went to a file that nobody asked for.
                self._begin(file.path, file.key)


def _age(file: TailedFile) -> tuple[int, int]:
    """Return a key that sorts files by when they were written last, then by when they were met."""
    return file.mtime_ns, _met_ms(file)


def _met_ms(file: TailedFile) -> int:
    return int(file.name.rpartition(".")[2], 16)
