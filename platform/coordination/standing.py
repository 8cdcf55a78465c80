"""How sure a process may be of its session. Pure: events and instants in, a state out; no clock, no kazoo.

Who is not sure of its session acts as if it had lost it. SURE therefore is more than 'connected': the server has answered on
this connection, and less than the lease has passed since the question was *sent*. As long as that holds the server cannot have
expired the session. A process that was frozen (SIGSTOP, a long pause of the machine) wakes up with its lease run out and is
unsure before its first act, although kazoo still calls it connected.
"""

from enum import StrEnum


class SessionState(StrEnum):
    """What a process knows of its session."""

    SURE = "sure"
    UNSURE = "unsure"
    """It may live, it may be gone: stop acting as owner or leader until SURE (go on) or LOST (begin anew)."""
    LOST = "lost"
    """It is gone, with every ephemeral node it held."""


class Standing:
    """The state of one session, fed with what happens. Callers hold their own lock."""

    def __init__(self, *, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._state = SessionState.LOST
        self._sure_until_ms = -1
        self._connection = 0
        self._changes: list[SessionState] = []
        self.generation = 0
        """Counts the sessions: a higher number means that everything ephemeral made before is gone."""

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
        """A connection stands; nothing is sure before the server has answered on it."""
        self._connection += 1
        self._sure_until_ms = -1

    def suspended(self) -> None:
        """The connection is gone, the session may live."""
        self._sure_until_ms = -1
        if self._state is SessionState.SURE:
            self._become(SessionState.UNSURE)

    def lost(self) -> None:
        """The server says the session is gone, or the client gave it up."""
        self._sure_until_ms = -1
        if self._state is not SessionState.LOST:
            self.generation += 1
            self._become(SessionState.LOST)

    def confirmed(self, connection: int, sent_at_ms: int) -> None:
        """The server answered, on `connection`, a question sent at `sent_at_ms`.

        An older connection's answer proves nothing now.
        """
        if connection != self._connection:
            return
        self._sure_until_ms = max(self._sure_until_ms, sent_at_ms + self._lease_ms)
        if self._state is not SessionState.SURE:
            self._become(SessionState.SURE)

    def tick(self, now_ms: int) -> None:
        """Note the time: a lease that ran out makes the session unsure."""
        if self._state is SessionState.SURE and now_ms >= self._sure_until_ms:
            self._become(SessionState.UNSURE)

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def take_changes(self) -> list[SessionState]:
        """Return the changes not taken yet, oldest first: at most a LOST and what followed it last."""
        taken, self._changes = self._changes, []
        return taken

    def _become(self, state: SessionState) -> None:
        self._state = state
        if state is SessionState.LOST:
            self._changes = [state]  # whatever came before, a loss ends it
            return
        if self._changes and self._changes[-1] is not SessionState.LOST:
            self._changes.pop()
        self._changes.append(state)
