"""A stream's positions, as its checkpoint has them, and what the next micro-batch of it is. Pure.

The JSON is that of Spark's Kafka source, `{"clicks": {"0": 23, "1": 345}}`, with two more names, which no topic can have:
`:topic_id`, by which a topic that was created again is detected, and `:lost`, the offsets that this batch skips because they
were not in the log any more (`docs/FORMATS.md`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import WarehouseError
from ..source.log_ends import LogEnds
from ..source.offset_ranges import OffsetRange
from .rate_limits import shares

_ID, _LOST, _FIRST = ":topic_id", ":lost", ":first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets [from_offset, to_offset) of a partition that cannot be read any more."""

    partition: int
    from_offset: int
    to_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Partition → the offset to read next."""

    topic: str
    offsets: Mapping[int, int]
    topic_id: str = ""
    """Empty where the cluster has none."""
    lost: tuple[Gap, ...] = ()
    is_first: bool = False
    """No batch has begun here yet. The first, be it empty, is then another position, which Spark keeps in the checkpoint."""

    def as_json(self) -> dict[str, Any]:
        words: dict[str, Any] = {self.topic: {str(one): self.offsets[one] for one in sorted(self.offsets)}}
        if self.topic_id:
            words[_ID] = self.topic_id
        if self.lost:
            words[_LOST] = {
                str(one.partition): {"from": one.from_offset, "to": one.to_offset, "reason": one.reason} for one in self.lost
            }
        if self.is_first:
            words[_FIRST] = True
        return words

    @classmethod
    def of_json(cls, topic: str, words: Mapping[str, Any]) -> "Positions":
        """Raises WarehouseError for a checkpoint of another topic or another source."""
        try:
            offsets = {int(partition): int(offset) for partition, offset in words[topic].items()}
            lost = tuple(
                Gap(partition=int(partition), from_offset=gap["from"], to_offset=gap["to"], reason=gap["reason"])
                for partition, gap in words.get(_LOST, {}).items()
            )
            return cls(topic=topic, offsets=offsets, topic_id=words.get(_ID, ""), lost=lost, is_first=words.get(_FIRST, False))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WarehouseError(
                f"the checkpoint's offsets {str(words)[:300]} are not those of topic {topic!r}: each query wants a "
                f"checkpointLocation of its own, and another topic a new one"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The log as it is now, seen from a stream's positions."""

    begin: dict[int, int] = field(default_factory=dict)
    """Where each partition's reading continues."""
    lost: list[Gap] = field(default_factory=list)


def looked_at(start: Positions, ends: LogEnds, topic_id: str, *, is_earliest: bool = False) -> Looked:
    """Return where reading continues after `start`, and what cannot be read any more.

    A partition that `start` does not know is new and begins at 0. `is_earliest`: before the first batch, the log's start may
    have moved, and nothing is lost by that.
    """
    if start.topic_id and topic_id and start.topic_id != topic_id:
        return _another_topic(start, ends)
    found = Looked()
    forgives = is_earliest and start.is_first
    for partition in sorted(ends.end):
        known, first, end = start.offsets.get(partition, 0), ends.start[partition], ends.end[partition]
        if known < first:
            found.begin[partition] = first
            if not forgives:
                reason = f"the log begins at {first} now (retention, or deleted records)"
                found.lost.append(Gap(partition=partition, from_offset=known, to_offset=first, reason=reason))
        elif known > end:
            found.begin[partition] = end
            reason = f"the log ends at {end}: it has lost its tail, or is another log"
            found.lost.append(Gap(partition=partition, from_offset=end, to_offset=known, reason=reason))
        else:
            found.begin[partition] = known
    for partition in sorted(set(start.offsets) - set(ends.end)):
        known = start.offsets[partition]
        reason = "the topic does not have this partition any more: it is another topic of that name"
        found.lost.append(Gap(partition=partition, from_offset=known, to_offset=known, reason=reason))
    return found


def _another_topic(start: Positions, ends: LogEnds) -> Looked:
    """All of the other topic is unread; what was left of the old one is lost, and it is unknown how much that was."""
    reason = "the topic was deleted and created again (its id is another): its new log is read from its start"
    lost = [
        Gap(partition=partition, from_offset=offset, to_offset=offset, reason=reason)
        for partition, offset in sorted(start.offsets.items())
    ]
    return Looked(begin=dict(ends.start), lost=lost)


def next_positions(
    start: Positions,
    looked: Looked,
    ends: LogEnds,
    topic_id: str,
    *,
    limit: int | None = None,
    target: Mapping[int, int] | None = None,
) -> Positions:
    """Return where the next batch ends: at the log's end, at `target` if that is nearer, and after `limit` offsets at most.

    Offsets that are lost do not count. `start` itself, if nothing is new. A partition that `target` lacks came after it and is
    not begun.
    """
    begin = {
        partition: offset
        for partition, offset in looked.begin.items()
        if target is None or partition in target or partition in start.offsets
    }
    upto = {
        partition: max(offset, min(ends.end[partition], ends.end[partition] if target is None else target.get(partition, 0)))
        for partition, offset in begin.items()
    }
    taken = shares({partition: upto[partition] - offset for partition, offset in begin.items()}, limit)
    offsets = {partition: offset + taken[partition] for partition, offset in begin.items()}
    if offsets == dict(start.offsets) and not looked.lost and not start.is_first:
        return start
    return Positions(topic=start.topic, offsets=offsets, topic_id=topic_id or start.topic_id, lost=tuple(looked.lost))


def batch_between(
    start: Positions, end: Positions, looked: Looked, ends: LogEnds, topic_id: str
) -> tuple[list[OffsetRange], list[Gap]]:
    """Return what the batch from `start` to `end` reads, of what the log still has, and what it does not have any more.

    `looked`: from `start`. A batch is planned again after a restart, and the log may be another by then.
    """
    if end.topic_id and topic_id and end.topic_id != topic_id:
        return [], list(looked.lost)
    is_same = not (start.topic_id and end.topic_id and start.topic_id != end.topic_id)
    found, lost = [], [one for one in looked.lost if one.partition in end.offsets]
    for partition, to_offset in sorted(end.offsets.items()):
        known = start.offsets.get(partition, 0) if is_same else 0
        upto = min(to_offset, ends.end.get(partition, to_offset))
        if known < to_offset and upto < to_offset:
            reason = f"the log ends at {upto}: it has lost its tail, or is another log"
            lost.append(Gap(partition=partition, from_offset=max(known, upto), to_offset=to_offset, reason=reason))
        begin = max(known, looked.begin.get(partition, known))
        if begin < upto:
            found.append(OffsetRange(partition=partition, from_offset=begin, to_offset=upto))
    return found, lost
