"""How sure a process may be of its session. Pure: events and instants in, a state out; no clock, no kazoo.

A process that is not sure of its session acts as if it had lost it. SURE is more than 'connected': the server has answered a
probe on this connection, and less than the lease has passed since the probe was *sent*. While that holds, the server cannot
have expired the session. A process that was frozen (SIGSTOP, a long pause of the machine) wakes up after the end of its lease.
It is unsure before it acts, although kazoo still calls it connected.
"""

from enum import StrEnum


class SessionState(StrEnum):
    """What a process knows of its session."""

    SURE = "sure"
    UNSURE = "unsure"
    """The session may be alive or gone. Stop acting as owner or leader until SURE (continue) or LOST (begin again)."""
    LOST = "lost"
    """The session is gone, with all its ephemeral nodes."""


class Standing:
    """The state of one session, computed from its events. The caller holds a lock."""

    def __init__(self, *, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._state = SessionState.LOST
        self._sure_until_ms = -1
        self._connection = 0
        self._changes: list[SessionState] = []
        self.generation = 0
        """Counts the sessions. After it has grown, every ephemeral node made before is gone."""

    @property
    def connection(self) -> int:
        """The number of the present connection, 0 before the first."""
        return self._connection

    @property
    def state(self) -> SessionState:
        return self._state

    def is_sure(self, now_ms: int) -> bool:
        """Return whether the session provably lives at `now_ms` (monotonic)."""
        return self._state is SessionState.SURE and now_ms < self._sure_until_ms

    def connected(self) -> None:
        """There is a connection. The session is not sure before the server has answered on it."""
        self._connection += 1
        self._sure_until_ms = -1

    def suspended(self) -> None:
        """The connection is gone. The session may be alive."""
        self._sure_until_ms = -1
        if self._state is SessionState.SURE:
            self._become(SessionState.UNSURE)

    def lost(self) -> None:
        """The server ended the session, or the client gave it up."""
        self._sure_until_ms = -1
        if self._state is not SessionState.LOST:
            self.generation += 1
            self._become(SessionState.LOST)

    def confirmed(self, connection: int, sent_at_ms: int) -> None:
        """The server answered, on `connection`, a probe that was sent at `sent_at_ms`. An older connection's answer proves
        nothing.
        """
        if connection != self._connection:
            return
        self._sure_until_ms = max(self._sure_until_ms, sent_at_ms + self._lease_ms)
        if self._state is not SessionState.SURE:
            self._become(SessionState.SURE)

    def tick(self, now_ms: int) -> None:
        """Take the time: at the end of the lease the session becomes unsure."""
        if self._state is SessionState.SURE and now_ms >= self._sure_until_ms:
            self._become(SessionState.UNSURE)

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def take_changes(self) -> list[SessionState]:
        """Return the changes since the last call, oldest first: at most a LOST and the latest state after it."""
        taken, self._changes = self._changes, []
        return taken

    def _become(self, state: SessionState) -> None:
        self._state = state
        if state is SessionState.LOST:
            self._changes = [state]  # a loss makes the earlier changes irrelevant
            return
        if self._changes and self._changes[-1] is not SessionState.LOST:
            self._changes.pop()
        self._changes.append(state)
