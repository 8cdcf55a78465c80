"""When the loop may pause so that a producer's input gathers: several requests then come in one read and leave in one send.

The policy of one connection. It decides from what reads have brought whether the peer waits for no single response; the loop
decides whether to pause at all (`Loop.let_gather`). It halves the processor time at 50 messages a request."""

from typing import Protocol

FEW = 16
"""Requests in one read, counted by the length of the first. With fewer, a read has brought little."""
STREAMED, STREAMED_BYTES = 128, 128 * 1024
"""A peer waits for no single response when one read brings so many requests, or so many bytes in `FEW` requests or more. One that
keeps 64 small requests in flight would soon wait for the pause itself: it lost a third of its rate."""
GATHERS = 256
"""How many reads with little may gather until a read brings so much again."""


class Pauses(Protocol):
    """Pauses before it reads again (the loop)."""

    def let_gather(self, fd: int, *, has_much: bool) -> None: ...


class InputGathering:
    """Watches the reads of one connection."""

    __slots__ = ("_fd", "_left", "_pauses")

    def __init__(self, pauses: Pauses, fd: int) -> None:
        self._pauses = pauses
        self._fd = fd
        self._left = 0
        """How many more reads with little may gather."""

    def saw(self, size_bytes: int, requests: int) -> None:
        """Note what a read has brought, and let the input gather where it may. Hot: once a run."""
        if requests >= STREAMED or (size_bytes >= STREAMED_BYTES and requests >= FEW):
            self._left = GATHERS
        if self._left:
            self._left -= requests < FEW
            self._pauses.let_gather(self._fd, has_much=requests >= FEW)
