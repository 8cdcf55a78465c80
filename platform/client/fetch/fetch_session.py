"""A fetch session (KIP-227) with one broker, as its client keeps it. Pure: what to ask next, and what an absent partition means.

In a session, the request has only what has changed, and the response only what is new. One that keeps none (its session id is 0)
is asked for everything each time; so is one that has forgotten the session.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...wire.messages.fetch import FetchPartition, FetchTopic
from .fetched import FetchedPartition, TopicPartition

LARGEST_EPOCH = (1 << 31) - 1
NO_SESSION = -1
FEWEST_PARTITIONS = 2
"""A fetch of one partition asks for no session: our broker recognises it by its bytes, which costs less."""


class Asked(NamedTuple):
    """The part of a request that a session decides."""

    session_id: int
    session_epoch: int
    topics: Sequence[FetchTopic]
    forgotten: Sequence[tuple[str, Sequence[int]]]


class _Known(NamedTuple):
    high_watermark: int
    log_start_offset: int
    last_stable_offset: int


class FetchSession:
    """The partitions that are read from one broker."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.behind: set[TopicPartition] = set()
        """Partitions whose last known end is behind the offset wanted."""
        self._session_id = 0
        self._epoch = 0
        """0: everything is asked for again."""
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[TopicPartition, None] = {}
        self._told: set[TopicPartition] = set()
        """What the broker has in the session."""
        self._known: dict[TopicPartition, _Known] = {}
        self._unmoved: dict[TopicPartition, FetchedPartition] = {}
        self._is_asked = False

    def put(self, name: TopicPartition, offset: int) -> None:
        """Read a partition from this offset on."""
        # Behind the others: a broker without sessions serves a request in its order, and not all partitions may fit.
        self.offsets.pop(name, None)
        self.offsets[name] = offset
        self._changed[name] = None
        self._forgotten.pop(name, None)
        self._unmoved.pop(name, None)
        self._compare(name, offset)

    def drop(self, name: TopicPartition) -> None:
        """Read a partition no more."""
        del self.offsets[name]
        self._changed.pop(name, None)
        self._unmoved.pop(name, None)
        self.behind.discard(name)
        if name in self._told:
            self._forgotten[name] = None  # its last state stays valid until the broker forgets it, too

    def ask(self, partition_bytes: int) -> Asked:
        """Return what to ask now. `answered` or `reset` must follow; without either, everything is asked for again."""
        if self._is_asked:
            self.reset()
        self._is_asked = True
        if self._epoch == 0:
            epoch = 0 if self._session_id or len(self.offsets) >= FEWEST_PARTITIONS else NO_SESSION
            topics = _topics(self.offsets.items(), partition_bytes)
            asked = Asked(self._session_id, epoch, topics, ())
        else:
            topics = _topics([(name, self.offsets[name]) for name in self._changed], partition_bytes)
            asked = Asked(self._session_id, self._epoch, topics, _by_topic(self._forgotten))
        self._told |= self._changed.keys()
        self._told -= self._forgotten.keys()
        for name in self._forgotten:
            self._known.pop(name, None)
        self._changed.clear()
        self._forgotten.clear()
        return asked

    def answered(self, session_id: int) -> None:
        """The broker has answered without an error, in this session (0: in none)."""
        self._is_asked = False
        if session_id:
            self._epoch = 1 if self._epoch == LARGEST_EPOCH else self._epoch + 1
        else:
            self._epoch = 0
        self._session_id = session_id

    def reset(self) -> None:
        """Ask for everything again: the broker has refused the session, or its response is lost."""
        self._epoch = 0
        self._is_asked = False
        self._changed.clear()
        self._forgotten.clear()
        self._told = set(self.offsets)
        self._known.clear()
        self._unmoved.clear()
        self.behind.clear()

    def heard(self, name: TopicPartition, high_watermark: int, log_start_offset: int, last_stable_offset: int) -> None:
        """The broker has said this of a partition."""
        offset = self.offsets.get(name)
        if offset is not None:
            self._known[name] = _Known(high_watermark, log_start_offset, last_stable_offset)
            self._unmoved.pop(name, None)
            self._compare(name, offset)

    def unmoved(self, name: TopicPartition) -> FetchedPartition | None:
        """Return the state of a partition that the response omits: the last one, without records. None: there is none."""
        found = self._unmoved.get(name)
        if found is None and (known := self._known.get(name)) is not None:
            found = self._unmoved[name] = FetchedPartition(
                topic=name.topic,
                partition=name.partition,
                requested_offset=self.offsets[name],
                high_watermark=known.high_watermark,
                log_start_offset=known.log_start_offset,
                last_stable_offset=known.last_stable_offset,
            )
        return found

    def _compare(self, name: TopicPartition, offset: int) -> None:
        known = self._known.get(name)
        if known is not None and offset < known.high_watermark:
            self.behind.add(name)
        else:
            self.behind.discard(name)


def _topics(wanted: Iterable[tuple[TopicPartition, int]], partition_bytes: int) -> list[FetchTopic]:
    by_topic: dict[str, list[FetchPartition]] = {}
    for (topic, partition), offset in wanted:
        by_topic.setdefault(topic, []).append(FetchPartition(partition, offset, partition_bytes))
    return [FetchTopic(topic, partitions) for topic, partitions in by_topic.items()]


def _by_topic(names: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in names:
        by_topic.setdefault(topic, []).append(partition)
    return list(by_topic.items())
