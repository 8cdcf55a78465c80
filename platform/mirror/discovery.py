"""Finds the partitions to copy and makes their topics at the destination, on a thread of its own: the copying does not wait.

A look asks both clusters for their topics. While neither changes, it costs two requests and no walk over the topics. Topics that
the destination lacks are made some at a time, and each look makes a bounded number: a client that makes ten thousand at once
keeps nobody's topic waiting. The forwarder's thread begins a look and takes its result.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol

from ..client.connection.cluster import Cluster
from ..client.connection.control_plane import Listing
from ..errors import HeadraceError
from ..runtime.backoff import Backoff
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from .destination import TOPICS_LANE
from .errors import NameTaken
from .topics.naming import Naming, collisions

log = get_logger(__name__)

EVERY_MS = 1_000
BACKOFF = Backoff(first_ms=100, longest_ms=EVERY_MS)
MADE_AT_ONCE = 200
"""Topics of one CreateTopics request."""
MOST_MADE = 1_000
"""Topics that one look makes or has checked; the next one follows at once."""
STOP_MS = 1_000


class PreparesTopics(Protocol):
    """What discovery needs of a destination."""

    @property
    def cluster(self) -> Cluster: ...

    def prepare(
        self, wanted: Mapping[str, int], present: Mapping[str, Collection[int]], /
    ) -> Mapping[str, HeadraceError | None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What has changed since the last time."""

    ready: Mapping[str, tuple[int, ...]]
    """Topic → its partitions, of those whose copy has become ready, or has more partitions now."""
    gone: frozenset[str] = frozenset()
    """Topics that were ready before and are not to be copied any more."""
    renewed: frozenset[str] = frozenset()
    """Topics that have another id in the source than before: they were deleted and created again."""


NOTHING = Found(ready={})


class Discovery:
    """The known topics of the source. `take`, `is_due`, `begin` and `again` belong to the forwarder's thread; any thread may read
    the attributes.
    """

    def __init__(self, source: Cluster, destination: PreparesTopics, clock: Clock, naming: Naming | None = None) -> None:
        self._source = source
        self._destination = destination
        self._clock = clock
        self._naming = naming or Naming()
        self._due_ms = 0
        self._attempt = 0
        self.has_answers = False
        """Both clusters have answered since the start."""
        self.source_ids: Mapping[str, str] = {}
        """Each topic's id in the source, as of the last look; empty if its broker has none."""
        self.trouble: str | None = None
        """Why topics cannot be discovered now."""
        self._listings: tuple[Listing, Listing] | None = None
        self._wanted: dict[str, tuple[int, ...]] = {}
        self._unready: dict[str, None] = {}
        """Topics whose copy is to be made or checked, those that wait longest first."""
        self._refused: dict[str, None] = {}
        """Those with which that failed; they are tried again after the others."""
        self._ready: dict[str, tuple[int, ...]] = {}
        self._again: set[str] = set()
        self._new: dict[str, tuple[int, ...]] = {}
        """Ready, and not taken yet."""
        self._gone: set[str] = set()
        self._renewed: set[str] = set()
        self._taken: str | None = None
        """Which topics would share a name in the destination."""
        self._answers = 0
        """How often the ids were asked."""
        self._lock = threading.Lock()
        """Of `_new`, `_gone`, `_renewed`, `_again`."""
        self._wakes = threading.Semaphore(0)
        self._is_busy = False
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    # -- the forwarder's thread

    def is_due(self) -> bool:
        """Return whether a look may begin now."""
        return not self._is_busy and self._clock.monotonic_ms() >= self._due_ms

    def begin(self) -> None:
        """Let the thread look. It is started at the first look."""
        self._is_busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mirror-discovery", daemon=True)
            self._thread.start()
        self._wakes.release()

    def take(self) -> Found:
        """Return what has changed since the last call."""
        if not self._new and not self._gone and not self._renewed:
            return NOTHING
        with self._lock:
            new, gone, renewed = self._new, self._gone, self._renewed
            self._new, self._gone, self._renewed = {}, set(), set()
        return Found(ready=new, gone=frozenset(gone), renewed=frozenset(renewed))

    @property
    def answers(self) -> int:
        """Return how often the source's ids were asked: a number that grows says that those of `source_ids` are newer."""
        return self._answers

    def again(self, topics: Collection[str]) -> None:
        """Have these copies checked, and made if they are missing, at the next look."""
        with self._lock:
            self._again.update(topics)

    def stop(self) -> None:
        """End the thread, from any thread. A request that it waits for ends when the cluster's connections are closed."""
        self._is_stopping = True
        self._wakes.release()

    # -- its own thread

    def _run(self) -> None:
        while True:
            self._wakes.acquire()
            if self._is_stopping:
                return
            try:
                self.look()
            except Exception as error:
                # A fault of ours here must not look like a source without new topics.
                log.error("discovery_failed", exc_info=True)
                self.trouble = f"our own fault: {error!r}"
                self._due_ms = self._clock.monotonic_ms() + EVERY_MS
            finally:
                self._is_busy = False

    def look(self) -> None:
        """Ask both clusters, then make at most `MOST_MADE` topics. What is wrong is in `trouble`."""
        now_ms = self._clock.monotonic_ms()
        try:
            source = self._source.listing(self._naming.only, lane=TOPICS_LANE)
            self.source_ids = source.ids
            self._answers += 1
            destination = self._destination.cluster.listing(self._naming.only, lane=TOPICS_LANE)
            self._compare(source, destination)
            self.has_answers = True
            refused = self._prepare(destination)
        except HeadraceError as error:
            self._failed(error)
            return
        if refused is not None:
            self._failed(refused)
            return
        self._due_ms, self._attempt = (now_ms + EVERY_MS if not self._unready else 0), 0
        self.trouble = self._taken

    def _compare(self, source: Listing, destination: Listing) -> None:
        """Find what is to be made or checked. Walks over the topics only if one of the clusters has changed."""
        with self._lock:
            again, self._again = self._again, set()
        if self._listings is None or source is not self._listings[0]:
            wanted = [topic for topic in source.partitions if self._naming.is_wanted(topic)]
            taken = collisions(wanted, self._naming.destination_name)
            self._taken = str(NameTaken(taken, self._naming.destination_name)) if taken else None
            self._wanted = {topic: source.partitions[topic] for topic in wanted if topic not in taken}
            gone = self._ready.keys() - self._wanted.keys()
            for topic in gone:
                del self._ready[topic]
            before = {} if self._listings is None else self._listings[0].ids
            renewed = {topic for topic in self._ready if before.get(topic, "") != source.ids.get(topic, "") != ""}
            with self._lock:
                self._gone |= gone
                self._renewed |= renewed
                for topic in gone:
                    self._new.pop(topic, None)
        if self._listings is None or source is not self._listings[0] or destination is not self._listings[1]:
            needed = dict.fromkeys(
                topic
                for topic, partitions in self._wanted.items()
                if self._ready.get(topic) != partitions
                or len(destination.partitions.get(self._naming.destination_name(topic), ())) < len(partitions)
            )
            self._refused = dict.fromkeys(topic for topic in self._refused if topic in needed)
            waiting = [topic for topic in self._unready if topic in needed]
            self._unready = dict.fromkeys([*waiting, *(topic for topic in needed if topic not in self._refused)])
        self._unready.update(dict.fromkeys(topic for topic in again if topic in self._wanted))
        self._listings = source, destination

    def _prepare(self, destination: Listing) -> HeadraceError | None:
        """Have copies made or checked; return the first refusal."""
        refused: HeadraceError | None = None
        some = list(islice(chain(self._unready, self._refused), MOST_MADE))
        for begin in range(0, len(some), MADE_AT_ONCE):
            if self._is_stopping:
                break
            wanted = {topic: len(self._wanted[topic]) for topic in some[begin : begin + MADE_AT_ONCE]}
            outcomes = self._destination.prepare(wanted, destination.partitions)
            new = {}
            for topic in wanted:
                error = outcomes[topic]
                self._unready.pop(topic, None)
                self._refused.pop(topic, None)
                if error is None:
                    if self._ready.get(topic) != self._wanted[topic]:
                        new[topic] = self._ready[topic] = self._wanted[topic]
                else:
                    self._refused[topic] = None
                    refused = refused or error
            if new:
                with self._lock:
                    self._new |= new
        return refused

    def _failed(self, error: HeadraceError) -> None:
        if self.trouble is None:
            log.warning("discovery_failed", error=str(error))
        self.trouble = str(error)
        self._due_ms = self._clock.monotonic_ms() + BACKOFF.wait_ms(self._attempt)
        self._attempt += 1
