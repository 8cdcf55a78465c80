"""Every partition's state, and which partitions are due for what. Both change together, so that no turn walks over all of them.

Decides nothing. All but `snapshot` belongs to the forwarder's thread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..client.fetch.fetched import TopicPartition
from ..client.fetch.wanted import Wanted
from ..errors import HeadraceError
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from . import partition_copy
from .partition_copy import ERROR_PHASES, Gap, PartitionCopy, Phase

log = get_logger(__name__)


class Copies:
    """The states by partition. `move` is the only way to change one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[TopicPartition, PartitionCopy] = {}
        self.wanted = Wanted()
        """Where each partition that may be fetched continues."""
        self._ahead: list[TopicPartition] = []
        """Those that are wanted from further on than their copy has come (`due_to_fetch`)."""
        self._to_resume: dict[TopicPartition, None] = {}
        """Resuming, or stopped with an error."""
        self._to_skip: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, None] = {}
        """Copying, but not before a moment that is still to come."""
        self.mending: dict[TopicPartition, None] = {}
        """Copying again after a failure; the next fetch says whether that is over."""
        self.changes = 0
        """How often a state has changed."""
        self.progress: dict[TopicPartition, int] = {}
        """Partition → how far it is copied, of those that have moved since this was last taken (`take_progress`)."""

    def snapshot(self) -> Mapping[TopicPartition, PartitionCopy]:
        """Return every partition's current state. From any thread."""
        return dict(self._states)

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._states

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._states)

    def get(self, name: TopicPartition) -> PartitionCopy | None:
        return self._states.get(name)

    def __getitem__(self, name: TopicPartition) -> PartitionCopy:
        return self._states[name]

    def add(self, name: TopicPartition) -> None:
        """Begin with a partition: both logs' ends are to be read."""
        self._put(name, PartitionCopy())

    def remove(self, name: TopicPartition) -> None:
        del self._states[name]
        self.changes += 1
        self.wanted.drop(name)
        for index in (self._to_resume, self._to_skip, self._delayed, self.mending, self.progress):
            index.pop(name, None)

    def move(self, name: TopicPartition, after: PartitionCopy) -> None:
        """Store the partition's new state. Log the changes that matter: trouble begins or ends, an error state."""
        before = self._states[name]
        self._put(name, after)
        if before.copied_to != after.copied_to:
            self.progress[name] = after.copied_to
        topic, partition = name
        if after.phase in ERROR_PHASES and before.phase is not after.phase:
            log.error("copy_stopped", topic=topic, partition=partition, state=after.phase.value, error=after.trouble)
        elif before.trouble is None and after.trouble is not None:
            log.warning("copy_troubled", topic=topic, partition=partition, error=after.trouble)
        elif before.trouble is not None and after.trouble is None:
            log.info("copy_mended", topic=topic, partition=partition, at_offset=after.copied_to)

    def trouble(self, names: Iterable[TopicPartition], error: HeadraceError) -> None:
        """Note a failure that may pass of each of these partitions; those that are gone are left out."""
        now_ms = self._clock.monotonic_ms()
        for name in names:
            before = self._states.get(name)
            if before is not None:
                self.move(name, partition_copy.troubled(before, str(error), now_ms))

    def stop(self, name: TopicPartition, phase: Phase, why: str) -> None:
        """Move a partition to an error state."""
        self.move(name, partition_copy.in_error(self._states[name], phase, why, self._clock.monotonic_ms()))

    def due_to_resume(self, most: int) -> list[TopicPartition]:
        """Return at most so many partitions of which both logs' ends are to be read now."""
        now_ms = self._clock.monotonic_ms()
        found: list[TopicPartition] = []
        for name in self._to_resume:
            if partition_copy.is_due_to_resume(self._states[name], now_ms):
                found.append(name)
                if len(found) == most:
                    break
        return found

    def due_to_skip(self) -> Sequence[TopicPartition]:
        return list(self._to_skip)

    def due_to_fetch(self, follows: Mapping[TopicPartition, int]) -> Wanted:
        """Return what is to be fetched now: where each copy continues, and of those in `follows` what comes behind a fetch that
        is not placed yet.
        """
        ahead, self._ahead = self._ahead, []
        for name in ahead:
            # What was fetched may not have been placed.
            if name in self._states and name in self.wanted.offsets:
                self.wanted.move(name, self._states[name].fetch_offset)
        if self._delayed:
            now_ms = self._clock.monotonic_ms()
            for name in [name for name in self._delayed if self._states[name].not_before_ms <= now_ms]:
                del self._delayed[name]
                self.wanted.move(name, self._states[name].fetch_offset)
        for name, offset in follows.items():
            if name in self.wanted.offsets:
                self.wanted.move(name, offset)
                self._ahead.append(name)
        return self.wanted

    def take_progress(self) -> Mapping[TopicPartition, int]:
        """Return how far those partitions are copied that have moved since the last call."""
        taken, self.progress = self.progress, {}
        return taken

    def log_gap(self, name: TopicPartition, gap: Gap) -> None:
        log.error(
            "offsets_lost",
            topic=name.topic,
            partition=name.partition,
            loss=gap.kind.value,
            from_offset=gap.from_offset,
            to_offset=gap.to_offset,
            records="unknown",
        )

    def _put(self, name: TopicPartition, after: PartitionCopy) -> None:
        self._states[name] = after
        self.changes += 1
        if after.phase is Phase.COPYING and after.trouble is not None:
            self.mending[name] = None
        else:
            self.mending.pop(name, None)
        if after.phase is Phase.COPYING:
            self._to_resume.pop(name, None)
            self._to_skip.pop(name, None)
            if after.not_before_ms and after.not_before_ms > self._clock.monotonic_ms():
                self._delayed[name] = None
                self.wanted.drop(name)
            else:
                self._delayed.pop(name, None)
                self.wanted.move(name, after.fetch_offset)
            return
        self.wanted.drop(name)
        self._delayed.pop(name, None)
        if after.phase is Phase.SKIPPING:
            self._to_resume.pop(name, None)
            self._to_skip[name] = None
        else:
            self._to_skip.pop(name, None)
            # Behind the others, so that those that fail again and again do not keep others waiting.
            self._to_resume.pop(name, None)
            self._to_resume[name] = None
