"""Whether this broker leads a partition, asked of ZooKeeper. For answers that are wrong where another broker has taken over.

A leader that was frozen believes that it leads until it has read the partition's node. Lives on the loop thread.
"""

from collections.abc import Callable
from functools import partial

from ..replication.state import State

MOST_WAITING = 10_000
"""Answers that may wait for one partition's node. Connections bound them long before."""

Sure = Callable[[bool], None]


class LeadershipCheck:
    """Of one replica. A question that comes while the node is being read waits for the next reading: what is read now may be
    older than the question. So there is one reading at a time, however many ask.
    """

    def __init__(self, read: Callable[[Callable[[State | None], None]], None], leads: Callable[[State], bool]) -> None:
        """`read` reads the node and calls back with it, None when it cannot; `leads` compares it with what this broker knows."""
        self._read, self._leads = read, leads
        self._waiting: list[Sure] = []
        self._is_reading = False

    def when_sure(self, done: Sure) -> None:
        """Call `done` with True when this broker leads. False: it does not, or that is not known."""
        if len(self._waiting) >= MOST_WAITING:
            done(False)
            return
        self._waiting.append(done)
        if not self._is_reading:
            self._begin()

    def end(self) -> None:
        """Tell all that wait that this broker does not lead."""
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(False)

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._is_reading = True
        self._read(partial(self._is_read, waiting))

    def _is_read(self, waiting: list[Sure], node: State | None) -> None:
        self._is_reading = False
        leads = node is not None and self._leads(node)
        for done in waiting:
            done(leads)
        if self._waiting and not self._is_reading:
            self._begin()
