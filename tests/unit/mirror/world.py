"""A source, a destination and the audit's memory in a few lines, for the pure core: what happens is chosen by whoever drives it.

The destination judges appends with the broker's own pure rule, so the two decisions are tested against each other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.broker.log.conditional_append import Refused, Step, decide
from headrace.mirror import partition_copy
from headrace.mirror.partition_copy import Ends, PartitionCopy, Phase, TailComparison
from headrace.wire.batch.record_batch import BatchHeader


def header(position: int, size_bytes: int, crc: int = 0, record_count: int = 1) -> BatchHeader:
    base_offset = position + size_bytes - record_count
    return BatchHeader(base_offset, size_bytes, 0, crc, 0, record_count - 1, 0, 0, -1, -1, -1, record_count)


@dataclass
class Log:
    """Batches in order, some of them unreadable."""

    batches: list[BatchHeader] = field(default_factory=list)
    start: int = 0
    end: int = 0
    unreadable: set[int] = field(default_factory=set)

    def append(self, size_bytes: int, crc: int) -> None:
        self.batches.append(header(self.end, size_bytes, crc))
        self.end += size_bytes

    def lose_last(self) -> None:
        """A power cut: what was not on disk is gone."""
        if self.batches:
            del self.batches[-1]
            self.end = self.batches[-1].next_offset if self.batches else self.start

    def expire(self, count: int) -> None:
        del self.batches[:count]
        self.start = self.batches[0].position if self.batches else self.end

    def read(self, offset: int, most: int) -> list[BatchHeader]:
        """As a broker: whole readable batches from `offset` on, up to an unreadable one."""
        found: list[BatchHeader] = []
        for one in self.batches:
            if one.next_offset <= offset:
                continue
            if one.position in self.unreadable:
                if found:
                    break
                continue
            found.append(one)
            if len(found) == most:
                break
        return found


@dataclass
class ReporterDouble:
    """What the audit was told, and what the mirror's process has counted and not reported.

    A range that is reported again takes the place of what was reported for it, as in the audit's records
    (`TierReports.take_range`).
    """

    reported: int | None = None
    told: list[BatchHeader] = field(default_factory=list)
    position: int | None = None
    counted: list[BatchHeader] = field(default_factory=list)
    began: int = 0

    def begin(self, offset: int) -> None:
        self.began = self.position = offset
        self.counted = []

    def add(self, one: BatchHeader) -> None:
        assert self.position is not None
        if one.next_offset > self.position:
            assert one.position >= self.position, "a batch is counted in halves"
            self.counted.append(one)
            self.position = one.next_offset

    def publish(self) -> None:
        if self.position is not None:
            self.told = [one for one in self.told if not self.began <= one.position < self.position] + self.counted
            self.counted = []
            self.began = self.reported = self.position

    def crash(self) -> None:
        self.position, self.counted = None, []


@dataclass
class World:
    source: Log = field(default_factory=Log)
    destination: Log = field(default_factory=Log)
    reporter: ReporterDouble = field(default_factory=ReporterDouble)
    copy: PartitionCopy = field(default_factory=PartitionCopy)
    now_ms: int = 0
    gaps: list[partition_copy.Gap] = field(default_factory=list)
    late: list[tuple[list[BatchHeader], int]] = field(default_factory=list)
    """Requests whose answer never came: they may arrive at any later time, or again."""

    def deliver(self, batches: list[BatchHeader], conditional_start: int) -> bool:
        """Let a request arrive at the destination; return whether it was acknowledged."""
        log = self.destination
        for one in batches:
            step = decide(
                one,
                log_start_offset=log.start,
                log_end_offset=log.end,
                source_log_start_offset=conditional_start,
            )
            if isinstance(step, Refused):
                return False
            if step is Step.COMPARE:
                if one not in log.batches:
                    return False
                continue
            if step is Step.START:
                log.start = one.position
            log.batches.append(one)
            log.end = one.next_offset
        return True

    def crash(self) -> None:
        """`kill -9` of the mirror."""
        self.reporter.crash()
        self.copy = PartitionCopy()

    def turn(self, *, most: int = 3, fate: Callable[[], str] = lambda: "acknowledged") -> None:
        """One turn of the forwarder, as `forwarder.Forwarder.turn` carries it out."""
        self.now_ms += partition_copy.RECHECK_MS
        if partition_copy.is_due_to_resume(self.copy, self.now_ms):
            self._resume()
        if self.copy.phase is Phase.SKIPPING:
            self.reporter.publish()
            self.copy, gap = partition_copy.skipped(self.copy)
            self.reporter.begin(self.copy.counted_to)
            self.gaps += [gap] if gap else []
        self.copy = partition_copy.destination_seen(self.copy, self.destination.end, self.now_ms)
        if partition_copy.is_due_to_fetch(self.copy, self.now_ms):
            self._fetch(most, fate)

    def _resume(self) -> None:
        ends = Ends(
            source_start=self.source.start,
            source_end=self.source.end,
            destination_start=self.destination.start,
            destination_end=self.destination.end,
        )
        position = self.reporter.position
        counted_to = self.reporter.reported if position is None else position
        self.copy = partition_copy.resumed(self.copy, ends, self._compare_tails(), counted_to=counted_to, now_ms=self.now_ms)
        if self.copy.phase is Phase.COPYING and (position is None or self.copy.counted_to < position):
            self.reporter.begin(self.copy.counted_to)

    def _compare_tails(self) -> TailComparison:
        last = self.destination.batches[-1] if self.destination.batches else None
        if last is None or last.position < self.source.start or last.position in self.source.unreadable:
            return TailComparison.UNKNOWN
        return TailComparison.SAME if last in self.source.batches else TailComparison.DIFFERENT

    def _fetch(self, most: int, fate: Callable[[], str]) -> None:
        offset = self.copy.fetch_offset
        if not self.source.start <= offset <= self.source.end:
            self.copy = partition_copy.out_of_range(self.copy, self.source.start, self.now_ms)
            return
        found = self.source.read(offset, most)
        high_watermark = self.source.end if found else offset
        plan = partition_copy.after_fetch(
            self.copy, found, log_start_offset=self.source.start, high_watermark=high_watermark, now_ms=self.now_ms
        )
        if plan.gap is not None:
            self.gaps.append(plan.gap)
            assert self.reporter.position is not None
            self.reporter.position = max(self.reporter.position, plan.gap.to_offset)
        for one in found[: plan.count_only]:
            self.reporter.add(one)
        self.copy = plan.copy
        batches = found[plan.count_only : plan.append_end]
        if batches:
            self._append(batches, plan.conditional_start, fate())

    def _append(self, batches: list[BatchHeader], conditional_start: int, fate: str) -> None:
        arrived = fate in ("acknowledged", "answer lost") and self.deliver(batches, conditional_start)
        if fate != "acknowledged":
            self.late.append((batches, conditional_start))
        if fate == "acknowledged" and arrived:
            for one in batches:
                self.reporter.add(one)
            self.copy = partition_copy.acknowledged(self.copy, batches[-1].next_offset)
        else:
            self.copy = partition_copy.troubled(self.copy, fate, self.now_ms)
