"""The leader's side of the messages: what followers tell goes to their replicas' machines, and their polls are answered.

One session for each follower's process. A poll is answered at the end of the loop's turn in which there is something for it, for
all partitions together. Lives on the loop thread. Memory: what waits to be sent is a set of partitions, never their bytes.
"""

from collections.abc import Callable, Iterable

from ..event_loop.deferred_response import DeferredResponse
from ..event_loop.loop import Loop
from . import messages
from .driver import ReplicaDriver
from .messages import Key, Refusal, Sender

POLL_MS = 300
"""How long a poll waits when there is nothing. An answer is then the sign that the leader is alive."""
ANSWER_BYTES = 1 << 20
"""Batches in one answer to a poll, about; one batch goes whatever its size."""
PARTITION_BYTES = 256 << 10
"""Of one partition, when others wait, too."""
MOST_SESSIONS = 1_000
LOST_MS = 600
"""A follower polls again at once. One that has not for so long is not waited for any more."""


class _Session:
    def __init__(self, sender: Sender, now_ms: int) -> None:
        self.sender = sender
        self.polled_ms = now_ms
        """When the last poll ended."""
        self.is_lost = False
        self.due: dict[Key, ReplicaDriver] = {}
        self.refusals: dict[Key, int] = {}
        self.poll: DeferredResponse | None = None
        self.is_arranged = False

    def ended_poll(self, now_ms: int) -> None:
        self.poll, self.polled_ms, self.is_lost = None, now_ms, False


class Followers:
    """See the module. `find` returns the replica of a partition here; `all_here` returns all."""

    def __init__(
        self, loop: Loop, find: Callable[[Key], ReplicaDriver | None], all_here: Callable[[], Iterable[ReplicaDriver]]
    ) -> None:
        self._loop, self._find, self._all_here = loop, find, all_here
        self._sessions: dict[int, _Session] = {}

    def tell(self, body: memoryview) -> None:
        """Take what a follower tells. Raises MalformedFrame."""
        sender, fetches = messages.decode_tell(body)
        session = self._session(sender)
        if session is None:
            return
        for key, fetch in fetches:
            driver = self._find(key)
            if driver is None:
                session.refusals[key] = 0
                self._wake(session)
            else:
                driver.take_fetch(fetch)

    def poll(self, body: memoryview) -> bytes | DeferredResponse:
        """Answer a poll, now or when there is something. Raises MalformedFrame."""
        session = self._session(messages.decode_poll(body))
        if session is None:
            return messages.encode_response(())
        if session.poll is not None:
            session.poll.complete((messages.encode_response(()),))
        session.ended_poll(self._loop.now_ms)
        if session.due or session.refusals:
            return self._drained(session)

        def give_up() -> tuple[bytes]:
            session.ended_poll(self._loop.now_ms)
            return (messages.encode_response(()),)

        def cancelled() -> None:
            session.ended_poll(self._loop.now_ms)

        deadline_ms = self._loop.now_ms + POLL_MS
        session.poll = DeferredResponse(deadline_ms=deadline_ms, at_deadline=give_up, cancelled=cancelled)
        return session.poll

    def has_answer(self, driver: ReplicaDriver, to: int) -> None:
        session = self._sessions.get(to)
        if session is not None:
            session.due[driver.key] = driver
            self._wake(session)

    def refuse(self, driver: ReplicaDriver, to: int, leader_epoch: int) -> None:
        session = self._sessions.get(to)
        if session is not None:
            session.due.pop(driver.key, None)
            session.refusals[driver.key] = leader_epoch
            self._wake(session)

    def forget(self, driver: ReplicaDriver) -> None:
        for session in self._sessions.values():
            session.due.pop(driver.key, None)

    def polling(self) -> frozenset[int]:
        """Return the brokers that poll, or polled a moment ago."""
        since_ms = self._loop.now_ms - LOST_MS
        return frozenset(
            one for one, session in self._sessions.items() if session.poll is not None or session.polled_ms > since_ms
        )

    def look_for_lost(self) -> None:
        """Wait no longer for followers that poll no more: they are dead, stalled or cut off."""
        for broker_id, session in self._sessions.items():
            if session.poll is None and not session.is_lost and self._loop.now_ms - session.polled_ms >= LOST_MS:
                session.is_lost = True
                for driver in list(self._all_here()):
                    driver.follower_lost(broker_id)

    def _session(self, sender: Sender) -> _Session | None:
        """Return the follower's session. A new process or connection gets a new one; None for what an earlier one sent."""
        session = self._sessions.get(sender.broker_id)
        if session is not None and session.sender == sender:
            return session
        if session is not None and sender[1:] < session.sender[1:]:
            return None
        if session is None and len(self._sessions) >= MOST_SESSIONS:
            return None
        if session is not None and session.poll is not None:
            session.poll.complete((messages.encode_response(()),))
        for driver in self._all_here():
            driver.outgoing.pop(sender.broker_id, None)
        session = self._sessions[sender.broker_id] = _Session(sender, self._loop.now_ms)
        return session

    def _wake(self, session: _Session) -> None:
        if not session.is_arranged and session.poll is not None:
            session.is_arranged = True
            self._loop.at_turn_end(lambda: self._answer(session))

    def _answer(self, session: _Session) -> None:
        session.is_arranged = False
        poll = session.poll
        if poll is not None and (session.due or session.refusals):
            session.ended_poll(self._loop.now_ms)
            poll.complete((self._drained(session),))

    def _drained(self, session: _Session) -> bytes:
        to, left = session.sender.broker_id, ANSWER_BYTES
        parts = [messages.encode_refusal(Refusal(key, epoch)) for key, epoch in session.refusals.items()]
        session.refusals.clear()
        for key, driver in list(session.due.items()):
            if left <= 0:
                break
            del session.due[key]
            most = left if not session.due else min(left, PARTITION_BYTES)
            made = driver.answer_for(to, most)
            if made is None:
                continue
            answer, has_more = made
            left -= len(answer.batches) + 100
            parts.append(messages.encode_answer(answer))
            if has_more:
                session.due[key] = driver  # behind the others
        return messages.encode_response(parts)
