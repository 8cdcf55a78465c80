"""Delete old segments, after the names of the segments that stay are on disk. Otherwise a power cut could lose the log end."""

from ..segments import DeletedSegment
from .flush_job import FlushWork
from .log_job import LogJob


class ExpireWork:
    """Enters on disk what stays."""

    __slots__ = ("entries", "up_to_offset")

    def __init__(self, *, up_to_offset: int, entries: FlushWork | None) -> None:
        self.up_to_offset = up_to_offset
        """Segments that end at it or before it are deleted when the work is done."""
        self.entries = entries
        """None: every name is on disk already, and `run` need not be called."""

    def run(self) -> None:
        """Wait for the disk. Raises OSError."""
        if self.entries is not None:
            self.entries.run()


ExpireJob = LogJob[ExpireWork, list[DeletedSegment]]
