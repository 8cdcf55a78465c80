"""The fetch sessions of KIP-227: what each client reads, and what it was told last. Lives on the loop thread.

A session's request names only what has changed, and its response only partitions with news. `FetchSession.active` holds the
partitions that may have news. All others are at their end and wait there, so an idle session of any size costs nothing.

Rules of Kafka's FetchSessionCache: `slots` sessions; a new one takes the place of a session that was not used for `UNUSED_MS`,
else of a smaller one that is older than that. Added here: the partitions of all sessions together have a limit, too.
"""

import random
from collections.abc import Callable, Iterable
from typing import Protocol

from ...wire.messages.fetch import FetchPartition, FetchRequest, TopicKey
from ..metrics import BrokerMetrics
from ..partitions.partition import Partition

UNUSED_MS = 120_000
LOOK_EVERY_MS = 1_000
"""With all slots taken, a session to evict is looked for at most this often."""
FIRST_EPOCH = 1
LARGEST_EPOCH = (1 << 31) - 1
MOST_PARTITIONS = 20_000
"""Of one session. All of them may have news at once, and the loop looks at each."""


class ParkedFetch(Protocol):
    """The request of a session that waits for data."""

    def shown(self, bytes_more: int) -> None: ...

    def gone(self) -> None: ...

    def superseded(self) -> None:
        """Another request of the session has come, or the session has ended."""
        ...


class SessionPartition:
    """One partition of a session: what the client wants of it, and what it was told last."""

    __slots__ = ("_session", "_waits_at", "partition", "sent_high_watermark", "sent_log_start", "topic", "wanted")

    def __init__(self, session: "FetchSession", topic: TopicKey, wanted: FetchPartition) -> None:
        self._session = session
        self.topic = topic
        self.wanted = wanted
        self.partition: Partition | None = None
        """None: not known yet, or no longer kept here."""
        self.sent_high_watermark = self.sent_log_start = -1
        self._waits_at: Partition | None = None

    def told(self, high_watermark: int, log_start_offset: int) -> None:
        """Note what the client is told now. A high watermark of -1 stands for an error: the state after it is always news."""
        self.sent_high_watermark, self.sent_log_start = high_watermark, log_start_offset

    def shown(self, bytes_more: int) -> None:
        session = self._session
        session.active[self] = None
        if session.parked is None:
            self.leave()  # further appends change nothing until the client asks
        else:
            session.parked.shown(bytes_more)

    def gone(self) -> None:
        self.partition = self._waits_at = None
        self._session.active[self] = None
        if self._session.parked is not None:
            self._session.parked.gone()

    def wait(self) -> None:
        """Have the partition tell of news from now on."""
        if self._waits_at is None and self.partition is not None:
            self._waits_at = self.partition
            self.partition.wait(self)

    def leave(self) -> None:
        if self._waits_at is not None:
            self._waits_at.wait_no_more(self)
            self._waits_at = None


class FetchSession:
    """The partitions that one client reads from this broker."""

    def __init__(self, session_id: int, now_ms: int, *, is_privileged: bool) -> None:
        self.session_id = session_id
        self.epoch = FIRST_EPOCH
        """Of the next request."""
        self.created_ms = self.used_ms = now_ms
        self.is_privileged = is_privileged
        """Whether a broker reads here: its sessions are not evicted for a consumer's."""
        self.goes_by_ids = False
        """Whether its requests name topics by their ids."""
        self.is_closed = False
        self.partitions: dict[tuple[TopicKey, int], SessionPartition] = {}
        self.active: dict[SessionPartition, None] = {}
        """Those that may have news, the one first that was served longest ago."""
        self.parked: ParkedFetch | None = None

    def put(self, topic: TopicKey, wanted: FetchPartition) -> SessionPartition:
        """Add a partition, or change what is wanted of it."""
        key = (topic, wanted.index)
        one = self.partitions.get(key)
        if one is None:
            one = self.partitions[key] = SessionPartition(self, topic, wanted)
        else:
            one.wanted = wanted
        self.active[one] = None
        return one

    def forget(self, topic: TopicKey, index: int) -> None:
        one = self.partitions.pop((topic, index), None)
        if one is not None:
            self.active.pop(one, None)
            one.leave()

    def rest(self, one: SessionPartition) -> None:
        """The client knows all of a partition, which is active: look at it again when the partition tells of news."""
        one.wait()
        del self.active[one]

    def served(self, one: SessionPartition) -> None:
        """A partition, which is active, gave records: the others come first next time."""
        del self.active[one]
        self.active[one] = None

    def park(self, parked: ParkedFetch) -> None:
        """`parked` hears of news from now on, until `parked` is set to None."""
        self.parked = parked
        for one in self.active:
            one.wait()


class FetchSessions:
    """All sessions of this broker."""

    def __init__(
        self, *, slots: int, most_partitions: int, metrics: BrokerMetrics, new_id: Callable[[], int] | None = None
    ) -> None:
        """`most_partitions`: of all sessions together. `metrics` has the counts."""
        self._slots = slots
        self._most_partitions = most_partitions
        self._new_id = new_id or (lambda: random.randint(1, LARGEST_EPOCH))
        self._sessions: dict[int, FetchSession] = {}
        """By id, the one first that was used longest ago."""
        self._looked_ms: int | None = None
        self._metrics = metrics

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def open(self, count: int, now_ms: int, *, is_privileged: bool = False) -> FetchSession | None:
        """Return a new session, which will have `count` partitions: `update` adds them. None when there is no room."""
        if self._slots <= 0 or not 0 < count <= min(MOST_PARTITIONS, self._most_partitions):
            return None
        while len(self._sessions) >= self._slots or self._metrics.fetch_session_partitions + count > self._most_partitions:
            if not self._evict_one(count, now_ms, is_privileged):
                return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, now_ms, is_privileged=is_privileged)
        self._metrics.fetch_sessions = len(self._sessions)
        return session

    def update(self, session: FetchSession, request: FetchRequest, now_ms: int) -> bool:
        """Apply what a request adds, changes and forgets. Return False when that is too much: close the session."""
        before = len(session.partitions)
        for topic, partitions in request.topics:
            for wanted in partitions:
                session.put(topic, wanted)
        for topic, indexes in request.forgotten:
            for index in indexes:
                session.forget(topic, index)
        self._metrics.fetch_session_partitions += len(session.partitions) - before
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return len(session.partitions) <= MOST_PARTITIONS and self._metrics.fetch_session_partitions <= self._most_partitions

    def close(self, session_id: int) -> None:
        """End a session if there is one. Its waiting request is answered with FETCH_SESSION_ID_NOT_FOUND."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        session.is_closed = True
        self._metrics.fetch_sessions = len(self._sessions)
        self._metrics.fetch_session_partitions -= len(session.partitions)
        leave_all(session.partitions.values())
        session.partitions.clear()
        session.active.clear()
        if session.parked is not None:
            session.parked.superseded()

    def _evict_one(self, count: int, now_ms: int, is_privileged: bool) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > UNUSED_MS:
            self._evict(oldest)
            return True
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOK_EVERY_MS:
            return False
        smallest = min(
            (one for one in self._sessions.values() if is_evictable(one, now_ms, is_privileged)), key=_rank, default=None
        )
        if smallest is None or (is_privileged, count) < _rank(smallest):
            self._looked_ms = now_ms
            return False
        self._evict(smallest)
        return True

    def _evict(self, session: FetchSession) -> None:
        self._metrics.fetch_sessions_evicted += 1
        self.close(session.session_id)


def is_evictable(session: FetchSession, now_ms: int, for_privileged: bool) -> bool:
    """Return whether a session that is in use may be evicted for a new one, if it is not larger."""
    return now_ms - session.created_ms > UNUSED_MS or (for_privileged and not session.is_privileged)


def next_epoch(epoch: int) -> int:
    return FIRST_EPOCH if epoch == LARGEST_EPOCH else epoch + 1


def leave_all(partitions: Iterable[SessionPartition]) -> None:
    for one in partitions:
        one.leave()


def _rank(session: FetchSession) -> tuple[bool, int]:
    return session.is_privileged, len(session.partitions)
