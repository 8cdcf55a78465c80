"""Copies towards or from Apache Kafka: hands portions of batches to the sink, counts what is committed: a turn, a transaction.

Nothing is counted before the sink has said that it is committed, so no report can run ahead of the copy. After any error of the
sink it is opened again, its ledger is read, and every partition continues where the ledger ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...client.connection.cluster import Cluster
from ...client.errors import ClientError, OffsetOutOfRange
from ...client.fetch.committed import are_data
from ...client.fetch.fetched import FetchedPartition, TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets_or_errors
from ...client.fetch.read_range import read_range
from ...client.transactions.errors import PartitionFailed, ProducerFenced
from ...errors import HeadraceError
from ...runtime.backoff import Backoff
from ...runtime.clock import Clock
from ...runtime.logs import get_logger
from ...wire.errors import CorruptBatch
from ...wire.mirror_ledger import LedgerEntry, SkippedRange, ledger_topic
from .. import partition_copy
from ..copies import Copies
from ..counting import Batch, Counting
from ..discovery import Discovery
from ..errors import WRITTEN_ANEW, CopyDiffers
from ..fetching.source_fetch import Limits
from ..partition_copy import Ends, Gap, GapKind, Phase, TailComparison
from ..placement import Standing
from ..topics.naming import Naming
from .destination_topics import DestinationTopics
from .plan import Plan, after_fetch
from .sink import Outcome, OutgoingBatch, Portion, Sink, outgoing

log = get_logger(__name__)

OPEN_BACKOFF = Backoff(first_ms=50, longest_ms=2_000)
REFUSED = "refused"
SUSPECTED = 3
"""A batch at which the destination fails in unclear words this often is the reason, and goes to quarantine."""
TAIL_TIMEOUT_MS = 5_000
LIMITS = Limits(fetch_bytes=16 << 20, least_partition_bytes=4 << 20, most_partition_bytes=4 << 20)
"""Of one turn, and so of one transaction."""


class RestampedPlacement:
    """One source and one destination, one of which is Apache Kafka."""

    is_busy = False
    """No append outlives a turn here."""

    def __init__(
        self,
        source: Cluster,
        topics: DestinationTopics,
        sink: Sink,
        mirror: str,
        discovery: Discovery,
        copies: Copies,
        counting: Counting,
        clock: Clock,
        *,
        is_dense: bool,
        naming: Naming | None = None,
    ) -> None:
        """`is_dense`: the source's offsets count records (Apache Kafka). `mirror`: its name, that of its ledger."""
        self._source = source
        self._topics = topics
        self._sink = sink
        self._mirror = mirror
        self._discovery = discovery
        self._copies = copies
        self._counting = counting
        self._clock = clock
        self._is_dense = is_dense
        self._naming = naming or Naming()
        self._entries: dict[TopicPartition, LedgerEntry] = {}
        """The ledger's last report of each partition."""
        self._refused: dict[TopicPartition, dict[int, str]] = {}
        """Base offset of a batch that the destination does not take → why, until the ledger says so."""
        self._left_out: dict[TopicPartition, set[int]] = {}
        """Base offsets of the batches that the ledger calls refused."""
        self._suspects: dict[tuple[TopicPartition, int], int] = {}
        self._lost: dict[TopicPartition, list[SkippedRange]] = {}
        """Gaps that the ledger does not know yet."""
        self._source_ids: dict[str, str] = {}
        self._destination_ids: dict[str, str] = {}
        self._open_attempt = 0
        self._open_at_ms = 0

    def is_open(self) -> bool:
        if self._sink.is_open:
            return True
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._open_at_ms or not self._discovery.has_answers:
            return False
        try:
            self._topics.prepare_ledger(ledger_topic(self._mirror))
            for entry in self._sink.open():
                self._learn(entry)
        except ProducerFenced:
            raise
        except HeadraceError as error:
            self._open_at_ms = now_ms + OPEN_BACKOFF.wait_ms(self._open_attempt)
            self._open_attempt += 1
            copying = [name for name, copy in self._copies.snapshot().items() if copy.phase is Phase.COPYING]
            self._copies.trouble(copying, error)
            self._discovery.trouble = str(error)
            return False
        self._open_attempt = 0
        for name, copy in self._copies.snapshot().items():
            if copy.phase in (Phase.COPYING, Phase.SKIPPING):
                self._copies.move(name, replace(copy, phase=Phase.RESUMING))
        log.info("ledger_read", mirror=self._mirror, partitions=len(self._entries))
        return True

    def _learn(self, entry: LedgerEntry) -> None:
        """Keep the ledger's word: where its partition continues, and which batches are not in the copy."""
        name = TopicPartition(entry.topic, entry.partition)
        self._entries[name] = entry
        self._left_out.setdefault(name, set()).update(one.from_offset for one in entry.skipped if one.reason == REFUSED)

    # -- find where to continue

    def standings(
        self, names: Sequence[TopicPartition], source_ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, Standing | HeadraceError]:
        there = {name: self._there(name) for name in names}
        self._source_ids |= source_ids
        self._destination_ids |= self._topics.cluster.topic_ids(sorted({one.topic for one in there.values()}))
        found: dict[TopicPartition, Standing | HeadraceError] = {}
        for name, bounds in self._bounds(there):
            if isinstance(bounds, ClientError):
                found[name] = bounds
                continue
            try:
                found[name] = self._standing(name, there[name], bounds)
            except HeadraceError as error:
                found[name] = error
        return found

    def _bounds(self, there: Mapping[TopicPartition, TopicPartition]) -> Iterator[tuple[TopicPartition, "_Bounds | ClientError"]]:
        """Yield where both logs of each partition begin and end. Raises ClientError if a cluster does not answer."""
        destination, source = self._topics.cluster, self._source
        for cluster, names in ((destination, there.values()), (source, there.keys())):
            cluster.learn({name.topic for name in names})
        destination_starts = log_offsets_or_errors(destination, dict.fromkeys(there.values(), EARLIEST))
        destination_ends = log_offsets_or_errors(destination, dict.fromkeys(there.values(), LATEST))
        starts = log_offsets_or_errors(source, dict.fromkeys(there, EARLIEST))
        ends = log_offsets_or_errors(source, dict.fromkeys(there, LATEST))
        for name, its in there.items():
            read = starts[name], ends[name], destination_starts[its], destination_ends[its]
            offsets = [one for one in read if not isinstance(one, ClientError)]
            errors = [one for one in read if isinstance(one, ClientError)]
            yield name, errors[0] if errors else _Bounds(*offsets)

    def _standing(self, name: TopicPartition, there: TopicPartition, bounds: "_Bounds") -> Standing:
        """Return where the source begins and ends, and up to which of its offsets the ledger says that it is copied."""
        entry = self._entries.get(name)
        if entry is not None and self._is_another_copy(entry, there.topic, bounds.destination_end):
            log.warning("copying_anew", topic=name.topic, partition=name.partition, why="the destination's topic is another")
            del self._entries[name]
            self._left_out.pop(name, None)
            entry = None
        fault = None if entry is None else self._fault(name, entry)
        if fault is None:
            try:
                entry = self._sink.catch_up(
                    name,
                    there,
                    entry,
                    source_start=bounds.source_start,
                    destination=(bounds.destination_start, bounds.destination_end),
                )
            except CopyDiffers as error:
                fault = str(error)
        ends = Ends(
            source_start=bounds.source_start,
            source_end=bounds.source_end,
            destination_start=0,
            destination_end=0 if entry is None else entry.to_offset,
        )
        if fault is not None:
            return Standing(ends=ends, fault=fault)
        if entry is not None:
            self._entries[name] = entry
        self._lost.pop(name, None)
        return Standing(ends=ends, comparison=self._compare(name, entry, ends))

    def _is_another_copy(self, entry: LedgerEntry, destination_topic: str, destination_end: int) -> bool:
        """Return whether the destination's topic was created again, or renamed, since the entry was written."""
        if entry.destination_topic != destination_topic:
            return True
        present = self._destination_ids.get(entry.destination_topic, "")
        if entry.destination_id and present:
            return entry.destination_id != present
        return destination_end == 0 < entry.destination_end

    def _compare(self, name: TopicPartition, entry: LedgerEntry | None, ends: Ends) -> TailComparison:
        """Compare the ledger's last batch with what the source holds there now."""
        if entry is None or entry.source_crc is None or self._topics.rules(name.topic, is_dense=True).is_compacted:
            return TailComparison.UNKNOWN
        base_offset, crc = entry.source_crc
        if not ends.source_start <= base_offset < ends.source_end:
            return TailComparison.UNKNOWN
        try:
            batches = read_range(
                self._source, *name, base_offset, base_offset + 1, on_corrupt=lambda bad: None, timeout_ms=TAIL_TIMEOUT_MS
            )
            found = next((header for header, _ in batches), None)
        except OffsetOutOfRange:
            return TailComparison.UNKNOWN
        if found is None or found.base_offset > base_offset:
            return TailComparison.UNKNOWN
        same = (found.base_offset, found.crc) == (base_offset, crc)
        return TailComparison.SAME if same else TailComparison.DIFFERENT

    def _fault(self, name: TopicPartition, entry: LedgerEntry) -> str | None:
        """Return why copying must not continue: the source's topic was created again under its old name."""
        present = self._source_ids.get(name.topic, "")
        if entry.source_id and present and entry.source_id != present:
            return f"the source's topic was deleted and created again since offset {entry.to_offset} was copied; {WRITTEN_ANEW}"
        return None

    def begun(self, standings: Mapping[TopicPartition, Standing], source_ids: Mapping[str, str]) -> None:
        """The ledger keeps the ids: its next entries name them."""

    def confirm(self, copied_to: Mapping[TopicPartition, int], source_ids: Mapping[str, str]) -> list[TopicPartition]:
        """Return none: the ledger keeps the ids."""
        return []

    def passed_over(self, name: TopicPartition, gap: Gap) -> None:
        reason = "expired" if gap.kind is GapKind.EXPIRED else "corrupt"
        self._lost.setdefault(name, []).append(SkippedRange(gap.from_offset, gap.to_offset, reason))

    def look(self) -> None:
        """The ledger says what the destination holds."""

    # -- copy

    def place(self, fetched: Sequence[FetchedPartition]) -> None:
        portions = [planned for one in fetched if (planned := self._plan(one)) is not None]
        if portions:
            self._write(portions)

    def finish(self) -> None:
        """Nothing is on its way between turns."""

    def _plan(self, one: FetchedPartition) -> tuple[Portion, FetchedPartition, Plan] | None:
        """Return one fetched partition's portion. What is only to be counted is counted here."""
        name = TopicPartition(one.topic, one.partition)
        before = self._copies.get(name)
        if before is None or before.phase is not Phase.COPYING or before.fetch_offset != one.requested_offset:
            return None
        end = one.last_stable_offset if one.last_stable_offset >= 0 else one.high_watermark
        try:
            data = are_data(one.batches, one.aborted)
            plan = after_fetch(
                before,
                [header for header, _ in one.batches],
                data,
                rules=self._topics.rules(name.topic, is_dense=self._is_dense),
                log_start_offset=one.log_start_offset,
                source_end=end,
                refused=self._refused.get(name, {}),
                now_ms=self._clock.monotonic_ms(),
            )
            if plan.gap is not None:
                self._counting.pass_over(name, plan.gap, before.copied_to)
                self._copies.log_gap(name, plan.gap)
                self.passed_over(name, plan.gap)
            if plan.count_only:
                counted = [batch for batch, is_data in zip(one.batches[: plan.count_only], data, strict=False) if is_data]
                self._count_all(name, counted, min(plan.copy.counted_to, plan.copy.copied_to))
        except HeadraceError as error:
            self._copies.trouble([name], error)
            return None
        if plan.copy != before:
            self._copies.move(name, plan.copy)
        if not plan.to_offset:
            return None
        try:
            portion = self._portion(name, one, plan)
        except CorruptBatch as error:
            # Its CRC holds and its records cannot be read, which only a batch that has to be created again must let us do.
            self._refuse(name, error.base_offset or 0, str(error))
            return None
        return portion, one, plan

    def _portion(self, name: TopicPartition, one: FetchedPartition, plan: Plan) -> Portion:
        skipped = list(self._lost.get(name, ()))
        for index in plan.refused:
            header = one.batches[index][0]
            skipped.append(SkippedRange(header.base_offset, header.next_offset, REFUSED))
        batches: list[OutgoingBatch] = []
        for index in plan.copied:
            header, batch = one.batches[index]
            try:
                batches.append(outgoing(header, batch))
            except CorruptBatch as error:
                raise CorruptBatch(str(error), base_offset=header.base_offset) from error
        return Portion(
            name=name,
            there=self._there(name),
            from_offset=plan.copy.copied_to,
            to_offset=plan.to_offset,
            batches=batches,
            skipped=skipped,
            last=self._entries.get(name),
            source_id=self._source_ids.get(name.topic, ""),
            destination_id=self._destination_ids.get(self._there(name).topic, ""),
        )

    def _write(self, work: Sequence[tuple[Portion, FetchedPartition, Plan]]) -> None:
        names = [portion.name for portion, _, _ in work]
        try:
            for portion, one, plan in work:
                for index in plan.refused:
                    header, batch = one.batches[index]
                    self._counting.quarantine.put_refused(
                        portion.name, header, batch, self._refused[portion.name][header.base_offset]
                    )
            outcomes = self._sink.write([portion for portion, _, _ in work])
        except PartitionFailed as error:
            self._failed(error, names)
            return
        except ProducerFenced:
            raise
        except HeadraceError as error:
            self._copies.trouble(names, error)
            return
        for outcome, (_, one, plan) in zip(outcomes, work, strict=True):
            self._committed(outcome, one, plan)

    def _committed(self, outcome: Outcome, one: FetchedPartition, plan: Plan) -> None:
        name = outcome.portion.name
        if outcome.entry is None:
            self._copies.trouble([name], outcome.error or ClientError(f"{name.topic}-{name.partition} was not copied"))
            return
        self._learn(outcome.entry)
        self._lost.pop(name, None)
        for index in plan.refused:
            base_offset = one.batches[index][0].base_offset
            self._refused.get(name, {}).pop(base_offset, None)
            self._suspects.pop((name, base_offset), None)
        try:
            self._count_all(name, [one.batches[index] for index in sorted(plan.copied + plan.refused)], plan.to_offset)
        except HeadraceError as error:
            # The destination holds it and it is not counted: resuming counts it.
            self._copies.trouble([name], error)
            return
        before = self._copies.get(name)
        if before is not None:
            self._copies.move(name, replace(partition_copy.acknowledged(before, plan.to_offset), sent_to=plan.to_offset))

    def _count_all(self, name: TopicPartition, batches: Sequence[Batch], to_offset: int) -> None:
        """Count these batches of records, in order: as held, or as quarantined where the ledger says that they were refused."""
        left_out = self._left_out.get(name, ())
        for header, batch in batches:
            if header.base_offset in left_out:
                self._counting.count_quarantined(name, header, batch)
            else:
                self._counting.count(name, [(header, batch)])
        self._counting.move_to(name, to_offset)

    # -- failures

    def _failed(self, failure: PartitionFailed, names: Sequence[TopicPartition]) -> None:
        """Carry on after one partition's append failed: leave its batch out, or its partition, or try all again."""
        name = failure.name
        if name not in self._copies:  # the ledger's own
            self._copies.trouble(names, failure)
            return
        if failure.is_suspect and failure.base_offset >= 0:
            key = name, failure.base_offset
            self._suspects[key] = self._suspects.get(key, 0) + 1
            if self._suspects[key] >= SUSPECTED:
                self._refuse(name, failure.base_offset, str(failure))
                return
        if failure.is_batch_refused:
            self._refuse(name, failure.base_offset, str(failure))
        elif failure.is_passing:
            self._copies.trouble([name], failure)
        else:
            self._copies.stop(name, Phase.REFUSED, str(failure))

    def _refuse(self, name: TopicPartition, base_offset: int, why: str) -> None:
        self._refused.setdefault(name, {})[base_offset] = why
        log.error("batch_refused", topic=name.topic, partition=name.partition, base_offset=base_offset, reason=why)

    def _there(self, name: TopicPartition) -> TopicPartition:
        """Return a partition's name in the destination."""
        return TopicPartition(self._naming.destination_name(name.topic), name.partition)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where both logs begin and end, each in its own offsets."""

    source_start: int
    source_end: int
    destination_start: int
    destination_end: int
