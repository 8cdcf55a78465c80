"""Every partition's state, and which partitions are due for what. Both change together, so that no turn walks over all of them.

Decides nothing. All but `snapshot` belongs to the forwarder's thread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..client.fetch.fetched import TopicPartition
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
        self.wanted: dict[TopicPartition, int] = {}
        """Where each partition that may be fetched goes on. Those that were served longest ago come first: where all have
        something, not all fit into one fetch.
        """
        self._to_resume: dict[TopicPartition, None] = {}
        """Resuming, or stopped with an error."""
        self._to_skip: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, None] = {}
        """Copying, but not before a moment that is still to come."""
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
        for index in (self.wanted, self._to_resume, self._to_skip, self._delayed, self.progress):
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

    def served(self, names: Iterable[TopicPartition]) -> None:
        """Put these partitions behind the others in `wanted`."""
        for name in names:
            offset = self.wanted.pop(name, None)
            if offset is not None:
                self.wanted[name] = offset

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

    def due_to_fetch(self) -> Mapping[TopicPartition, int]:
        """Return `wanted`, with those whose delay is over. Copy it before a state changes."""
        if self._delayed:
            now_ms = self._clock.monotonic_ms()
            for name in [name for name in self._delayed if self._states[name].not_before_ms <= now_ms]:
                del self._delayed[name]
                self.wanted[name] = self._states[name].fetch_offset
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
        if after.phase is Phase.COPYING:
            self._to_resume.pop(name, None)
            self._to_skip.pop(name, None)
            if after.not_before_ms and after.not_before_ms > self._clock.monotonic_ms():
                self._delayed[name] = None
                self.wanted.pop(name, None)
            elif self.wanted.get(name) != after.fetch_offset:
                self._delayed.pop(name, None)
                self.wanted[name] = after.fetch_offset
            return
        self.wanted.pop(name, None)
        self._delayed.pop(name, None)
        if after.phase is Phase.SKIPPING:
            self._to_resume.pop(name, None)
            self._to_skip[name] = None
        else:
            self._to_skip.pop(name, None)
            # Behind the others, so that those that fail again and again do not keep others waiting.
            self._to_resume.pop(name, None)
            self._to_resume[name] = None
