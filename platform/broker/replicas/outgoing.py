"""What a leader has sent to one follower of one partition, within its epoch: where the next answer begins, and when it is due.

A follower's fetch asks for everything from an offset on, so the leader sends on as the log grows, up to a window of bytes that
the follower has not acknowledged. What was sent a moment ago is not sent again because a fetch that was under way asks for it.
"""

from ...wire.batch.record_batch import read_header
from ..log import LogError, PartitionLog

WINDOW_BYTES = 4 << 20
"""Sent and not acknowledged."""
RESEND_MS = 400
"""A fetch that asks for what was sent longer ago than this gets it again: the answer was lost or could not be used."""


class Outgoing:
    """Lives on the loop thread."""

    __slots__ = ("_is_stuck", "_sent_from", "_sent_ms", "_told_start", "position")

    def __init__(self) -> None:
        self.position = 0
        """Where the next answer begins."""
        self._sent_from = 0
        self._sent_ms = -RESEND_MS
        self._told_start = -1
        self._is_stuck = False
        """Whether what begins at `position` could not be read: tried again when it is asked for again."""

    def asked(self, fetch_offset: int, now_ms: int) -> None:
        """A fetch has asked for what begins there."""
        self._is_stuck = False
        if not (self._sent_from <= fetch_offset <= self.position and now_ms - self._sent_ms < RESEND_MS):
            self.position = fetch_offset
            self._sent_from = fetch_offset

    def has_news(self, end_offset: int, written_offset: int, log_start_offset: int) -> bool:
        """Return whether an answer should go now."""
        if log_start_offset > self._told_start:
            return True
        return self.position < end_offset and self.position - written_offset < WINDOW_BYTES and not self._is_stuck

    def read(self, log: PartitionLog, most_bytes: int) -> tuple[bytes, int, int]:
        """Return whole batches, where the first one begins, and where the one behind the last does. None are there, and the
        offsets are -1 and `position`, at the end, in a gap, and at damage.

        A follower that lacks what was deleted gets the first batch that is kept. It may begin before the log's start.
        """
        try:
            offset = max(self.position, log.log_start_offset)
            if offset >= log.log_end_offset:
                return b"", -1, self.position
            region = log.read(offset, most_bytes)
            data = b"" if region is None else region.read()
        except (LogError, OSError):
            return b"", -1, self.position
        at, view, first, end = 0, memoryview(data), -1, self.position
        while at < len(data):
            header = read_header(view[at:])
            at += header.size_bytes
            end = header.next_offset
            if first < 0:
                first = header.position
        return data, first, end

    def sent(self, begin: int, end: int, now_ms: int, log_start_offset: int, log_end_offset: int) -> None:
        """An answer with what is between was given to the connection. One without batches at the log's end tells the log's start,
        and holds back nothing that is appended after it.
        """
        self._is_stuck = begin == end < log_end_offset
        self._sent_from, self.position = begin, end
        self._sent_ms, self._told_start = now_ms, log_start_offset
