"""Finds the files of a `[[directory]]` that are whole."""

import os
import stat as stats
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch

from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...sdk.encoding.event_encoder import EventEncoder
from ..source import AuditRun, Position, Scan, Source
from .dropped_file import Directory, DroppedFile, FileIdentity, source_name
from .file_schema import DROPPED_FILE_SCHEMA
from .settings import DirectorySettings

log = get_logger(__name__)


class DirectoryGroup:
    """The files of one section. Subfolders and links are ignored."""

    def __init__(self, settings: DirectorySettings, *, host: str, agent_name: str, clock: Clock) -> None:
        self.name = f"directory:{settings.name}"
        self.topics = (settings.topic,)
        self.run = AuditRun(
            instance=f"{host}/{settings.application}/{agent_name}-{settings.name}", lateness_ms=settings.lateness_ms
        )
        self.events: Counter[str] = Counter()
        self._settings = settings
        self._clock = clock
        self._directory = Directory(
            settings=settings, host=host, run=self.run, encoder=EventEncoder(DROPPED_FILE_SCHEMA, host), clock=clock
        )
        self._files: dict[str, DroppedFile] = {}
        """By the source's name: those that are offered."""
        self._waiting: dict[str, tuple[FileIdentity, int]] = {}
        """Name of a file → as what, and since when (monotonic), it did not change."""

    def scan(self, known: Mapping[str, Position]) -> Scan:
        """Raises OSError: the folder cannot be listed."""
        found = self._listed()
        here = {source_name(self._settings.name, name, identity): (name, identity) for name, identity in found.items()}
        changed: list[DroppedFile] = []
        for name, one in self._files.items():
            if name not in here and not one.is_gone:
                one.is_gone = True
                changed.append(one)
        unopened: dict[str, str] = {}
        for name, (file_name, identity) in here.items():
            if name in self._files or not (name in known or self._is_whole(file_name, identity)):
                continue
            if len(self._files) >= self._settings.most_files:
                unopened[self.name] = f"more than {self._settings.most_files} files: raise most_files, or take done files away"
                break
            self._files[name] = one = DroppedFile(self._directory, file_name, identity, self)
            self.events["files_found"] += 1
            changed.append(one)
        self._waiting = {name: since for name, since in self._waiting.items() if name in found}
        return Scan(changed=changed, unopened=unopened)

    doorbell = None

    def rung(self) -> Sequence[Source]:
        return ()

    def enrolled(self, topics: object) -> None:
        """Nothing to note: nothing waits for it."""

    def close(self) -> None:
        self._files.clear()

    def note(self, event: str) -> None:
        self.events[event] += 1

    def forget(self, name: str) -> None:
        self._files.pop(name, None)

    def _listed(self) -> dict[str, FileIdentity]:
        settings = self._settings
        found: dict[str, FileIdentity] = {}
        with os.scandir(settings.path) as entries:
            for entry in entries:
                if any(fnmatch(entry.name, one) for one in settings.exclude):
                    continue
                if not any(fnmatch(entry.name, one) for one in settings.patterns):
                    continue
                try:
                    stat = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stats.S_ISREG(stat.st_mode):
                    found[entry.name] = FileIdentity.of(stat)
        # Oldest first: messages of one partition follow each other as the files were written.
        return dict(sorted(found.items(), key=lambda one: (one[1].mtime_ns, one[0])))

    def _is_whole(self, file_name: str, identity: FileIdentity) -> bool:
        if self._settings.ready == "renamed":
            return True
        now_ms = self._clock.monotonic_ms()
        seen, since_ms = self._waiting.get(file_name, (None, now_ms))
        if seen != identity:
            # A file's own time says nothing: a writer may have set it back.
            since_ms = now_ms
            self._waiting[file_name] = (identity, since_ms)
        return now_ms - since_ms >= self._settings.quiet_ms
