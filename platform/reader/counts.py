"""What a reader reports to the audit: which records of each window are done, and which are in quarantine, by offsets.

A record is counted when the processor has taken it, and reported when the processor, and the quarantine, have it permanently;
only then is the group's offset committed. So a kill repeats reports and leaves none out. What stands below what was reported
before is not reported again but counted as redelivered. The tier is `consumer:<group>`, of a sink `sink:<group>`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..audit.model.messages import Skipped, Stretch
from ..audit.model.windows import WINDOW_MS, window_start_ms
from ..client.consumer.stream_message import Message
from ..client.fetch.fetched import TopicPartition

MOST_STRETCHES = 50_000
"""Of records that wait to be reported, in all partitions. With more, and telling impossible, reading pauses."""


class Reporter(Protocol):
    """What is used of `audit.publisher.RangeReporter`."""

    def reported(self, topic: str, partition: int, /) -> int | None: ...

    def begin(self, topic: str, partition: int, offset: int, /) -> None: ...

    def end(self, topic: str, partition: int, /) -> None: ...

    def add_records(
        self,
        topic: str,
        partition: int,
        to_offset: int,
        held: Mapping[int, Sequence[Stretch]],
        *,
        quarantined: Mapping[int, Sequence[Stretch]] | None = None,
        redelivered: Mapping[int, int] | None = None,
        skipped: Sequence[Skipped] = (),
    ) -> None: ...

    def publish(self, timeout_ms: int, /) -> int: ...


@dataclass(slots=True)
class _Partition:
    reported_to: int
    counted_to: int
    held: dict[int, list[Stretch]] = field(default_factory=dict)
    aside: dict[int, list[Stretch]] = field(default_factory=dict)
    redelivered: Counter[int] = field(default_factory=Counter)
    skipped: list[Skipped] = field(default_factory=list)
    run_from_ms: int = 0
    run_first: int = -1
    run_end: int = -1
    """Records one after another of the window `run_from_ms` that are not among `held` yet: [run_first, run_end)."""
    refused: set[int] = field(default_factory=set)
    """Offsets among `held` that the processor refused when it was flushed."""


class ReadCounts:
    """The counts of one member's partitions. Belongs to its thread."""

    def __init__(self, reporter: Reporter, *, most_stretches: int = MOST_STRETCHES) -> None:
        self._reporter = reporter
        self._most_stretches = most_stretches
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._stretch_count = 0

    @property
    def is_full(self) -> bool:
        """Return whether `tell` must come first."""
        return self._stretch_count >= self._most_stretches

    @property
    def stretch_count(self) -> int:
        """Runs of records, and skipped ranges, that wait to be reported."""
        return self._stretch_count

    def has_reported(self, name: TopicPartition, offset: int) -> bool:
        """Return whether the audit knows of what is there: quarantine has it, too, if it was to have it."""
        one = self._partitions.get(name)
        return one is not None and offset < one.reported_to

    def reported(self, name: TopicPartition) -> int | None:
        """Return up to which offset this tier has reported of the partition, ever. Raises the position book's error."""
        return self._reporter.reported(*name)

    def begin(self, name: TopicPartition, at: int, reported_to: int | None) -> None:
        """Count from offset `at` on. `reported_to`: what `reported` gave."""
        told = max(at, reported_to or 0)
        self._partitions[name] = _Partition(told, at)
        self._reporter.begin(*name, told)

    def count(self, message: Message, *, is_held: bool) -> None:
        """Count a record that is done once the processor is flushed, or that quarantine will have. Hot: once per record."""
        one = self._partitions.get(TopicPartition(message.topic, message.partition))
        offset = message.offset
        if one is None or offset < one.counted_to:
            return
        one.counted_to = message.next_offset
        if offset == one.run_end and is_held and one.run_from_ms <= message.timestamp_ms < one.run_from_ms + WINDOW_MS:
            one.run_end = offset + 1
            return
        self._end_run(one)
        window = window_start_ms(message.timestamp_ms)
        if offset < one.reported_to:
            one.redelivered[window] += 1
        elif is_held:
            one.run_from_ms, one.run_first, one.run_end = window, offset, offset + 1
            self._stretch_count += 1
        else:
            aside = one.aside.setdefault(window, [])
            if aside and aside[-1].end == offset:
                aside[-1] = Stretch(aside[-1].first, aside[-1].count + 1)
            else:
                aside.append(Stretch(offset, 1))
                self._stretch_count += 1

    def refuse(self, message: Message) -> None:
        """Take a counted record for one in quarantine: the processor has refused it."""
        one = self._partitions.get(TopicPartition(message.topic, message.partition))
        if one is not None and message.offset >= one.reported_to:
            one.refused.add(message.offset)

    def skip(self, name: TopicPartition, from_offset: int, to_offset: int, reason: str) -> None:
        """Go on behind a range that is not read, for a reason of `Skipped`."""
        one = self._partitions.get(name)
        if one is None:
            return
        first = max(from_offset, one.counted_to, one.reported_to)
        if first < to_offset:
            one.skipped.append(Skipped(first, to_offset, reason))
            self._stretch_count += 1
        one.counted_to = max(one.counted_to, to_offset)

    def go_back(self, name: TopicPartition, to_offset: int) -> None:
        """Count again from `to_offset` on; what was counted was told."""
        if (one := self._partitions.get(name)) is not None:
            one.counted_to = to_offset

    def tell(self, positions: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Tell the audit of everything that was counted; it is before `positions`. Raises what the reporter raises."""
        self._reporter.publish(timeout_ms)  # first what it could not tell before: so only this much waits there
        for name, at in positions.items():
            one = self._partitions.get(name)
            if one is None:
                continue
            self._end_run(one)
            held, aside = _apart(one)
            self._reporter.add_records(
                *name, at, held, quarantined=aside, redelivered=dict(one.redelivered), skipped=tuple(one.skipped)
            )
            self._partitions[name] = _Partition(max(one.reported_to, at), max(one.counted_to, at))
        self._stretch_count = 0
        self._reporter.publish(timeout_ms)

    def give_up(self, positions: Mapping[TopicPartition, int]) -> int:
        """Forget what could not be reported before `positions`, and begin again there; return how many stretches that were."""
        forgotten, self._stretch_count = self._stretch_count, 0
        for name, at in positions.items():
            if name in self._partitions:
                self._reporter.end(*name)
                self.begin(name, at, None)
        return forgotten

    def end(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that another member has now."""
        for name in partitions:
            if self._partitions.pop(name, None) is not None:
                self._reporter.end(*name)

    @staticmethod
    def _end_run(one: _Partition) -> None:
        if one.run_end > one.run_first:
            one.held.setdefault(one.run_from_ms, []).append(Stretch(one.run_first, one.run_end - one.run_first))
        one.run_first = one.run_end = -1


def _apart(one: _Partition) -> tuple[dict[int, list[Stretch]], dict[int, list[Stretch]]]:
    """Return what is done and what quarantine has, by window."""
    refused = sorted(one.refused)
    held: dict[int, list[Stretch]] = {}
    aside = {start: list(stretches) for start, stretches in one.aside.items()}
    for start, stretches in one.held.items():
        for stretch in stretches:
            mine = refused[bisect_left(refused, stretch.first) : bisect_left(refused, stretch.end)]
            if mine:
                aside.setdefault(start, []).extend(Stretch(offset, 1) for offset in mine)
            if left := _without(stretch, mine):
                held.setdefault(start, []).extend(left)
    return held, aside


def _without(stretch: Stretch, offsets: Sequence[int]) -> list[Stretch]:
    """Return the stretch without these offsets, which are in it and in order."""
    firsts = [stretch.first, *(offset + 1 for offset in offsets)]
    ends = [*offsets, stretch.end]
    return [Stretch(first, end - first) for first, end in zip(firsts, ends, strict=True) if first < end]
