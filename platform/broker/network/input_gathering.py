"""When the loop may pause so that a producer's input gathers: several requests then come in one read, and their responses leave
in one send. This halves the processor time at 50 messages a request.

The policy of one connection: it decides from the sizes of its reads whether the peer waits for no single response. The loop
decides whether to pause (`Loop.let_gather`)."""

from typing import Protocol

FEW = 16
"""Requests in one read, counted by the length of the first. A read with fewer counts as small."""
STREAMED, STREAMED_BYTES = 128, 128 * 1024
"""A peer waits for no single response when one read brings so many requests, or so many bytes in `FEW` requests or more. One that
keeps 64 small requests in flight would soon wait for the pause itself: it lost a third of its rate."""
GATHERS = 256
"""How many small reads may gather after a read that showed a streaming peer."""


class Pauses(Protocol):
    """May pause before it polls again (the loop)."""

    def let_gather(self, fd: int, *, has_much: bool) -> None: ...


class InputGathering:
    """Watches the reads of one connection."""

    __slots__ = ("_fd", "_left", "_pauses")

    def __init__(self, pauses: Pauses, fd: int) -> None:
        self._pauses = pauses
        self._fd = fd
        self._left = 0
        """How many more small reads may gather."""

    def saw(self, size_bytes: int, requests: int) -> None:
        """Note the size of a read, and let the input gather where the policy allows it. Hot: once a run."""
        if requests >= STREAMED or (size_bytes >= STREAMED_BYTES and requests >= FEW):
            self._left = GATHERS
        if self._left:
            self._left -= requests < FEW
            self._pauses.let_gather(self._fd, has_much=requests >= FEW)
