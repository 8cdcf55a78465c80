"""Where a reader goes on in each partition, and which partitions are read to their ends. Asks nobody.

A fetch brings only partitions with something new, so that a turn costs as much as has changed. Those that it leaves out are at
their ends.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ....client.fetch.fetched import TopicPartition
from ....client.fetch.wanted import Wanted
from ...model.tier_reports import PartitionRead
from ..store.log_books import LogRead


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What a fetch tells of the logs' ends."""

    caught_up: Mapping[TopicPartition, int]
    """Partition → as of when it is read to its end, of those that were not before."""
    behind: Collection[TopicPartition]
    """Those of which that is not known now."""
    level_ms: int | None
    """As of when all others are."""


@dataclass(slots=True)
class Places:
    """Belongs to the reader's thread."""

    generation: int | None = None
    """Of the positions; None: they are to be taken again."""
    wanted: Wanted = field(default_factory=Wanted)
    new: set[TopicPartition] = field(default_factory=set)
    """Partitions without a position: they begin where their logs begin."""
    _known: Collection[TopicPartition] = ()
    _lagging: dict[TopicPartition, int] = field(default_factory=dict)
    """Partitions that are not known to be at their ends → fetches, one after another, that brought nothing of them."""
    _gone: set[TopicPartition] = field(default_factory=set)
    """No longer read, and not told yet."""
    _asked: deque[int] = field(default_factory=deque)
    """When the last fetches were asked, as many as it takes to ask for each partition once."""

    def are_of(self, known: Collection[TopicPartition], generation: int) -> bool:
        """Return whether these partitions are read, at positions of this generation."""
        return self._known is known and self.generation == generation

    def forget(self) -> None:
        """Have the positions taken again."""
        self.generation = None

    def take(self, known: Collection[TopicPartition], generation: int, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from now on. Walks over all of them."""
        self.new = {name for name in known if name not in positions}
        self._gone = {name for name in (*self._gone, *self.wanted.offsets) if name not in known}
        for name in [*self._gone, *self.new]:
            self.wanted.drop(name)
        for name in known:
            if name in positions:
                self.wanted.move(name, positions[name])
        self._lagging = dict.fromkeys(known, 0)
        self._asked.clear()
        self._known, self.generation = known, generation

    def ends(self, asked_ms: int, came: Collection[TopicPartition], at_end: Collection[TopicPartition], *, turns: int) -> Ends:
        """Return what a fetch, begun at `asked_ms`, tells: it brought `came`, and `at_end` of them to their ends."""
        self._asked.append(asked_ms)
        while len(self._asked) > turns:
            self._asked.popleft()
        level_ms = self._asked[0] if len(self._asked) == turns else None
        caught_up = dict.fromkeys(at_end, asked_ms)
        if level_ms is not None:
            quiet = [name for name, count in self._lagging.items() if name not in came and count + 1 >= turns]
            caught_up |= dict.fromkeys(quiet, level_ms)
        behind = {*self._gone, *(name for name in came if name not in at_end)}
        for name in self._lagging:
            self._lagging[name] = 0 if name in came else self._lagging[name] + 1
        return Ends(caught_up=caught_up, behind=behind, level_ms=level_ms)

    def go_on_at(self, name: TopicPartition, offset: int) -> None:
        """Go on there in one partition, which is not known to be at its end."""
        self.wanted.move(name, offset)
        self._lagging[name] = 0

    def note(self, ends: Ends, positions: Mapping[TopicPartition, int]) -> None:
        """Know that the books have taken that, and go on at `positions` in what was read."""
        for name, offset in positions.items():
            self.wanted.move(name, offset)
        self.new.difference_update(positions)
        self._lagging.update((name, 0) for name in ends.behind if name not in self._gone)
        for name in ends.caught_up:
            self._lagging.pop(name, None)
        self._gone.clear()


def nothing_at(name: TopicPartition, start: int) -> LogRead:
    """Return that a partition, which begins at `start`, was read up to there."""
    return LogRead(found=PartitionRead(topic=name.topic, partition=name.partition, from_offset=start, to_offset=start))
