"""Which topics are loaded together, and how much of each: bounded batches in which a huge topic starves no small one. Pure.

Topics take turns. In each turn every topic that has something left gets one portion, at most `topic_bytes` of it, those with the
least left first. So a small topic waits for smaller ones and for one portion of each, however much the huge ones have; and it
is in one batch with many others, because a batch ends only at `batch_bytes` or `batch_topics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..source.offset_ranges import OffsetRange

BATCH_TOPICS = 64
BATCH_BYTES = 512 << 20
TOPIC_BYTES = 256 << 20
"""The most that one commit of a topic loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecords:
    """What of a topic is not loaded yet."""

    topic: str
    ranges: tuple[OffsetRange, ...]
    """Of every partition, also those with nothing new."""
    bytes_per_offset: int = 1

    @property
    def size_bytes(self) -> int:
        return self.bytes_per_offset * sum(one.span for one in self.ranges)


class FairBatches:
    """The batches of one run, one after another. A topic is in one batch at a time."""

    def __init__(
        self,
        news: Sequence[NewRecords],
        *,
        batch_topics: int = BATCH_TOPICS,
        batch_bytes: int = BATCH_BYTES,
        topic_bytes: int = TOPIC_BYTES,
    ) -> None:
        self._batch_topics = batch_topics
        self._batch_bytes = batch_bytes
        self._topic_bytes = topic_bytes
        self._left = {one.topic: one for one in news}
        self._turn: list[str] = []
        """The topics that are still to come in this turn, the next one last."""

    def next_batch(self) -> list[NewRecords]:
        """Return the next batch, in which each topic has a portion; empty if nothing is left."""
        found: list[NewRecords] = []
        size = 0
        while len(found) < self._batch_topics:
            if not self._turn:
                if found or not self._left:
                    break  # a topic's next portion needs the commit of this one
                self._turn = sorted(self._left, key=lambda topic: (self._left[topic].size_bytes, topic), reverse=True)
            whole = self._left[self._turn[-1]]
            portion, rest = cut(whole, self._topic_bytes)
            if found and size + portion.size_bytes > self._batch_bytes:
                break
            self._turn.pop()
            found.append(portion)
            size += portion.size_bytes
            if rest is None:
                del self._left[whole.topic]
            else:
                self._left[whole.topic] = rest
        return found

    def drop(self, topic: str) -> None:
        """Leave the topic out from now on: its last portion was not committed."""
        if self._left.pop(topic, None) is not None and topic in self._turn:
            self._turn.remove(topic)

    def put_back(self, portion: NewRecords) -> None:
        """Have a portion come again, with the rest of its topic, in the next turn."""
        rest = self._left.get(portion.topic, portion)
        ends = {one.partition: one.to_offset for one in rest.ranges}
        self.drop(portion.topic)
        ranges = tuple(replace(one, to_offset=ends[one.partition]) for one in portion.ranges)
        self._left[portion.topic] = replace(portion, ranges=ranges)

    def topics(self) -> list[str]:
        """Return the topics of which something is left."""
        return sorted(self._left)


def cut(whole: NewRecords, most_bytes: int) -> tuple[NewRecords, NewRecords | None]:
    """Return the first portion, of about `most_bytes` and from every partition its share, and the rest; None: there is none."""
    if whole.size_bytes <= most_bytes:
        return whole, None
    offsets = sum(one.span for one in whole.ranges)
    most = max(1, most_bytes // whole.bytes_per_offset)
    first, rest = [], []
    for one in whole.ranges:
        # Rounded up: every partition moves on, and the last portion comes.
        end = one.from_offset + -(-one.span * most // offsets)
        first.append(replace(one, to_offset=end))
        rest.append(replace(one, from_offset=end))
    return replace(whole, ranges=tuple(first)), replace(whole, ranges=tuple(rest))
