"""What the files of one `[[tail]]` section have in common."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ..source import AuditRun
from .line_encoder import LineEncoder
from .multiline import Multiline
from .open_files import OpenFiles

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Section:
    """The facts and the shared parts of a section."""

    name: str
    topic: str
    run: AuditRun
    clock: Clock
    encoder: LineEncoder
    multiline: Multiline | None
    line_limit_bytes: int
    rest_wait_ms: int
    """A file that was rotated away and did not grow for so long is at its end: what is behind its last newline is a line."""
    gone_wait_ms: int
    """A deleted file is forgotten after so long; a compressed copy of it has to be found before."""
    open_files: OpenFiles
    events: Counter[str] = field(default_factory=Counter)
    """What happened to files, by name: `truncated`, `deleted_unread`, …"""
    reported: set[tuple[str, str]] = field(default_factory=set)

    @property
    def longest_record_bytes(self) -> int:
        """Return how much has to be read at once to see the end of any record, or that it is too long."""
        joined = 0 if self.multiline is None else self.multiline.most_bytes
        return joined + 2 * (self.line_limit_bytes + 1)

    def is_in_the_making(self, mtime_ns: int) -> bool:
        """Return whether a compressed file of this time that cannot be read to its end may be read later."""
        return self.clock.now_ms() - mtime_ns // 1_000_000 < DAMAGED_MS

    def is_damaged(self, owner: Hashable) -> bool:
        """Return whether what cannot be read is a compressed file that nobody is writing any more."""
        content = self.open_files.of(owner)
        return content is not None and content.is_whole and not self.is_in_the_making(content.stat().st_mtime_ns)

    def note(self, event: str, path: str, **facts: Any) -> None:
        """Count an event of a file, and log it, the same one of a file once."""
        self.events[event] += 1
        if (event, path) in self.reported:
            return
        if len(self.reported) >= MOST_REMEMBERED:
            self.reported.clear()
        self.reported.add((event, path))
        log.warning(event, section=self.name, path=path, **facts)


DAMAGED_MS = 60_000
"""A compressed file that nobody wrote to for so long, and which cannot be decompressed, is not waited for."""
MOST_REMEMBERED = 10_000
"""(event, path) pairs that are remembered, to tell each once."""
