"""The slow part of letting old segments go: made on the log's thread, run on any, reported on the log's."""

from .flush_job import FlushJob


class ExpireJob:
    """Puts on disk that what stays is there. Before that nothing may go, or a power cut loses the log end."""

    __slots__ = ("entries", "up_to_offset")

    def __init__(self, *, up_to_offset: int, entries: FlushJob | None) -> None:
        self.up_to_offset = up_to_offset
        """The segments that end before it or at it are to go."""
        self.entries = entries
        """What is to be entered on disk; None: nothing, `run` need not be called."""

    def run(self) -> None:
        """Wait for the disk. From any thread. Raises OSError."""
        if self.entries is not None:
            self.entries.run()
