"""Elects one of several registries of a topic: who holds the seat in ZooKeeper writes, the others forward to it.

The new leader's first act is a record with its epoch in the schemas topic. Behind it in the topic every reader refuses records of
older epochs, so a leader that was deposed without knowing (frozen, cut off) changes nothing, whatever it still sends. Where the
session is not provably alive, this process does not write.
"""

import threading
from typing import Protocol

from ...coordination.errors import CoordinationError
from ...coordination.leader_seat import LeaderSeat, SeatHolder
from ...coordination.session import Session
from ...runtime.logs import get_logger
from ..errors import RegistryError
from . import refusals
from .write_gate import LeaderFacts, MustForward

log = get_logger(__name__)

LOOK_EVERY_MS = 200
SESSION_MS = 4_000
"""How long a dead leader's seat stays taken."""


class EpochStore(Protocol):
    """The store as the leader marks it."""

    def check_readable(self) -> None: ...

    @property
    def highest_epoch(self) -> int:
        """Return the highest epoch in the topic: leaders of lower ones are refused."""
        ...

    def mark_epoch(self, epoch: int) -> None:
        """Write the epoch to the topic and return when it was read back. Raises `RegistryError`."""
        ...


class Leadership:
    """One candidate. `start` begins to look; `check` is the gate of writes."""

    is_read_only = False

    def __init__(self, zookeeper: str, name: str, url: str, store: EpochStore, *, session_ms: int = SESSION_MS) -> None:
        self._zookeeper = zookeeper
        self._session_ms = session_ms
        self._name = name
        self._url = url
        self._store = store
        self._session: Session | None = None
        self._seat: LeaderSeat | None = None
        self._leader: SeatHolder | None = None
        self._leads_in: int | None = None
        """The session's generation in which the seat is held and the epoch is in the topic."""
        self._trouble: str | None = "the leader was not looked up yet"
        self._is_stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registry-leadership", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Give the seat up, so that another one leads at once."""
        self._is_stopping.set()
        self._wake.set()
        self._thread.join(timeout=30)
        session, self._session = self._session, None
        if session is not None:
            try:
                if self._seat is not None:
                    self._seat.leave()
            except CoordinationError as error:
                log.warning("seat_not_left", reason=str(error))
            session.close()

    @property
    def _is_leading(self) -> bool:
        session = self._session
        return session is not None and self._leads_in is not None and session.is_sure() and session.generation == self._leads_in

    def check(self) -> int:
        """Return the epoch in which this process leads. Raises MustForward, and 50004 if no leader is known."""
        leader = self._leader
        # The order matters: the holder is replaced before the process leads by it.
        if self._is_leading and leader is not None:
            return leader.epoch
        if leader is None or leader.url == self._url:
            raise refusals.no_leader(self._trouble or "an election is under way")
        raise MustForward(leader.url)

    def facts(self) -> LeaderFacts:
        leader = self._leader
        return LeaderFacts(
            leader=None if leader is None else leader.url,
            is_leader=self._is_leading,
            epoch=None if leader is None else leader.epoch,
            trouble=self._trouble,
        )

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._look()
                self._trouble = None
            except (CoordinationError, RegistryError) as error:
                if self._trouble is None:
                    log.warning("leadership_unsure", reason=str(error))
                self._trouble = str(error)
            except Exception as error:
                # A fault of ours must not end the thread: there would never be a leader again.
                log.error("leadership_failed", exc_info=True)
                self._trouble = f"our own fault: {error!r}"
            self._wake.wait(LOOK_EVERY_MS / 1000)
            self._wake.clear()

    def _look(self) -> None:
        session = self._opened()
        if self._is_leading:
            return
        if self._leads_in is not None:
            self._leads_in = None
            log.warning("leader_deposed", url=self._url)
        self._store.check_readable()
        generation = session.generation
        assert self._seat is not None
        self._leader = holder = self._seat.take(above=self._store.highest_epoch)
        if holder is None or holder.url != self._url:
            return
        if holder.epoch < self._store.highest_epoch:
            # Taken before the topic was read up to a later leader's; no reader would follow this one.
            self._seat.leave()
            return
        self._store.mark_epoch(holder.epoch)
        self._leads_in = generation
        log.info("leader_elected", url=self._url, epoch=holder.epoch)

    def _opened(self) -> Session:
        if self._session is None:
            session = Session(self._zookeeper, session_timeout_ms=self._session_ms, name="schema-registry")
            session.start()
            self._seat = LeaderSeat(session, self._name, self._url)
            session.watch_data(self._seat.path, self._wake.set)
            self._session = session
        return self._session
