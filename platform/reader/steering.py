"""What an application may want of its partitions while they are read: pause, resume, seek, lag. Every call from any thread."""

import threading
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from ..client.cluster_kind import counts_records
from ..client.fetch.fetched import TopicPartition
from ..client.fetch.log_offsets import LATEST, log_offsets
from .errors import ReaderMisused
from .steered_loop import SteeredLoop


class Lag(NamedTuple):
    """How far a partition's reader is behind the end of its log."""

    offsets: int
    records: int | None
    """None where offsets are positions in bytes, as on Headrace's own broker."""


class Steering:
    """The members of one process, as one."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self.loops: Sequence[SteeredLoop] = ()
        self._lock = threading.Lock()
        self._paused: set[tuple[str, int | None]] = set()
        self._counts_records: bool | None = None
        self.may_seek = True
        """False: the positions are another store's."""

    def is_paused(self, name: TopicPartition) -> bool:
        with self._lock:
            return (name.topic, None) in self._paused or (name.topic, name.partition) in self._paused

    def pause(self, topic: str, partitions: Collection[int] | None) -> None:
        with self._lock:
            self._paused |= self._named(topic, partitions)
        self._obey()

    def resume(self, topic: str, partitions: Collection[int] | None) -> None:
        """Raises ReaderMisused for single partitions of a topic that is paused as a whole."""
        named = self._named(topic, partitions)
        with self._lock:
            if partitions is not None and (topic, None) in self._paused:
                raise ReaderMisused(f"the topic {topic!r} is paused as a whole: resume it as a whole")
            self._paused = {one for one in self._paused if one not in named and (partitions is not None or one[0] != topic)}
        self._obey()

    def seek(self, name: TopicPartition, offset: int) -> None:
        self._check_seek(name.topic)
        if offset < 0:
            raise ReaderMisused(f"seek to offset {offset} of {name.topic}-{name.partition}: offsets begin at 0")
        loop = next((one for one in self.loops if one.owns(name)), None)
        if loop is None:
            raise ReaderMisused(f"seek in {name.topic}-{name.partition}: this process does not read it now")
        loop.order(partial(loop.seek, name, offset))

    def seek_to_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        self._check_seek(topic)
        found: dict[int, int] = {}
        for loop in self.loops:
            names = [name for name in loop.positions() if name.topic == topic]
            if names:
                for name, offset in log_offsets(loop.cluster, dict.fromkeys(names, timestamp_ms)).items():
                    loop.order(partial(loop.seek, name, offset))
                    found[name.partition] = offset
        return found

    def lag(self) -> dict[tuple[str, int], Lag]:
        found: dict[tuple[str, int], Lag] = {}
        for loop in self.loops:
            positions = loop.positions()
            if not positions:
                continue
            if self._counts_records is None:
                self._counts_records = counts_records(loop.cluster)
            for name, end in log_offsets(loop.cluster, dict.fromkeys(positions, LATEST)).items():
                behind = max(0, end - positions[name])
                found[name.topic, name.partition] = Lag(behind, behind if self._counts_records else None)
        return found

    def _named(self, topic: str, partitions: Collection[int] | None) -> set[tuple[str, int | None]]:
        if topic not in self._topics:
            raise ReaderMisused(f"this reader does not read the topic {topic!r}, but {', '.join(self._topics)}")
        return {(topic, None)} if partitions is None else {(topic, one) for one in partitions}

    def _check_seek(self, topic: str) -> None:
        self._named(topic, None)
        if not self.may_seek:
            raise ReaderMisused("seek with positions=: your database has the positions; stop the reader and change them there")

    def _obey(self) -> None:
        for loop in self.loops:
            loop.order(loop.obey_pauses)
