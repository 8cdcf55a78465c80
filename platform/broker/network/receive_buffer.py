"""Received bytes of requests: one scratch buffer for all connections, and a pool of buffers for unfinished frames.

An idle connection holds no buffer. Most reads go into the scratch buffer, and whole frames are answered from there. Only an
unfinished rest is copied into a buffer of the connection's own. That buffer grows with the received bytes, never with what
a length field claims. Pure: reads no socket."""

from collections import defaultdict

SCRATCH_BYTES = 256 * 1024
SMALLEST_BYTES = 4 * 1024
KEPT_BYTES = 32 * 1024 * 1024
LARGEST_KEPT_BYTES = 4 * 1024 * 1024
TRUST_FACTOR = 16
"""A buffer may be this many times as large as what was received: an honest 1 MiB frame is copied once, and a claimed 2 GiB costs
only what was sent."""


class BufferPool:
    """Buffers in powers of two. Returned ones are kept for the next, up to `KEPT_BYTES`, as fresh ones cost page faults."""

    def __init__(self) -> None:
        self.lent_bytes = 0
        self.peak_bytes = 0
        """The most that was lent at one time. Its reader resets it."""
        self._kept_bytes = 0
        self._free: defaultdict[int, list[bytearray]] = defaultdict(list)

    def take(self, at_least: int) -> bytearray:
        """Return a buffer of `at_least` bytes or more, with old content."""
        size = max(SMALLEST_BYTES, 1 << (at_least - 1).bit_length())
        self.lent_bytes += size
        if self.lent_bytes > self.peak_bytes:
            self.peak_bytes = self.lent_bytes
        if free := self._free[size]:
            self._kept_bytes -= size
            return free.pop()
        return bytearray(size)

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back. Its user must not touch it any more."""
        size = len(buffer)
        self.lent_bytes -= size
        if size <= LARGEST_KEPT_BYTES and self._kept_bytes + size <= KEPT_BYTES:
            self._kept_bytes += size
            self._free[size].append(buffer)

    def free_unused(self) -> None:
        """Free the returned buffers."""
        self._free.clear()
        self._kept_bytes = 0


class ReceiveBuffer:
    """What one connection has received and not used: `view[start:end]`."""

    __slots__ = ("_buffer", "_pool", "end", "start", "view")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._buffer: bytearray | None = None
        self.view = memoryview(b"")
        self.start = 0
        self.end = 0

    def __len__(self) -> int:
        return self.end - self.start

    def put(self, data: memoryview, frame_bytes: int | None) -> None:
        """Add received bytes. `frame_bytes` is the whole length of the frame that they belong to, where it is known."""
        self._make_room(len(data), frame_bytes)
        self.view[self.end : self.end + len(data)] = data
        self.end += len(data)

    def room(self, frame_bytes: int | None) -> memoryview:
        """Return a view to receive the rest of the frame into: room for all of it, or for a part. Never empty."""
        if frame_bytes is None:
            self._make_room(SMALLEST_BYTES, None)
            return self.view[self.end :]
        missing = frame_bytes - len(self)
        trusted = min(missing, max(16 * SMALLEST_BYTES, len(self) * TRUST_FACTOR))
        self._make_room(trusted, None)
        return self.view[self.end : min(self.start + frame_bytes, len(self.view))]

    def used(self, up_to: int) -> None:
        """Drop the bytes before `up_to`. When none are left the buffer goes back to the pool."""
        self.start = up_to
        if self.start == self.end:
            self.drop()

    def drop(self) -> None:
        """Drop all bytes and give the buffer back."""
        if self._buffer is not None:
            self.view.release()
            self._pool.give(self._buffer)
        self._buffer = None
        self.view = memoryview(b"")
        self.start = self.end = 0

    def _make_room(self, wanted: int, frame_bytes: int | None) -> None:
        if len(self.view) - self.end >= wanted:
            return
        held = len(self)
        needed = held + wanted
        if frame_bytes is not None:
            needed = max(needed, min(frame_bytes, needed * TRUST_FACTOR))
        buffer = self._pool.take(needed)
        view = memoryview(buffer)
        view[:held] = self.view[self.start : self.end]
        self.drop()
        self._buffer, self.view, self.start, self.end = buffer, view, 0, held
