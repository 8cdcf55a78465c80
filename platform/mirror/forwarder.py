"""Carries out the decisions of `partition_copy`, turn by turn, on one thread: find partitions, ask ends, fetch, count, append.

The next fetch is asked for before what came is appended, and what the destination confirmed is counted while it appends what
follows: so source, mirror and destination work at the same time. Memory is bounded by two fetch responses and one request for
each leader. Makes no decision about offsets. A failure makes a copy `troubled`; reading both logs' ends again repairs nearly all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..audit.model.messages import EXPIRED
from ..audit.publisher import RangeReporter
from ..client.connection.cluster import Cluster
from ..client.errors import OffsetOutOfRange
from ..client.fetch.fetched import FetchedPartition, TopicPartition
from ..client.fetch.log_offsets import LATEST, log_offsets
from ..errors import HeadraceError
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from . import partition_copy, tail_comparison
from .control.governor import Governor
from .destination import Append, Batch, Destination
from .discovery import Discovery
from .errors import WRITTEN_ANEW, MirrorError
from .fetching.source_fetch import Limits, SourceFetch
from .metrics import Tally
from .partition_copy import Ends, PartitionCopy, Phase, TailComparison
from .quarantine import CorruptRanges
from .topics.identity import Identity, KeepsIds
from .topics.naming import Naming

log = get_logger(__name__)

LOOK_EVERY_MS = 5_000
"""How often the destination's ends are read. It may lose data while nothing new arrives."""
FETCH_WAIT_MS = 300
"""How long a fetch waits if there is nothing new. A stop and a new topic wait no longer."""
PUBLISH_TIMEOUT_MS = 5_000


class Forwarder:
    """The mirror's work, one `turn` after another. All but `copies` belongs to the thread that calls `turn`."""

    def __init__(
        self,
        *,
        source: Cluster,
        destination: Destination,
        reporter: RangeReporter,
        quarantine: CorruptRanges,
        clock: Clock,
        limits: Limits | None = None,
        naming: Naming | None = None,
        kept_ids: KeepsIds | None = None,
    ) -> None:
        self._source = source
        self._destination = destination
        self._reporter = reporter
        self._quarantine = quarantine
        self._clock = clock
        self.governor = Governor()
        """What an operator wishes: pauses and bounds."""
        self.tally = Tally()
        self._from_source = SourceFetch(source, limits or Limits(), self.governor, clock)
        self._resumed: set[TopicPartition] = set()
        """Since the fetch was asked for: what comes of them may be of another log."""
        self.wait_ms = FETCH_WAIT_MS
        self.admitted: Callable[[list[FetchedPartition]], list[FetchedPartition]] = list
        """Returns what may be appended of a fetch: all of it, or nothing yet. The rest is fetched again."""
        self._copies: dict[TopicPartition, PartitionCopy] = {}
        self._uncounted: dict[TopicPartition, Sequence[Batch]] = {}
        """Confirmed in this turn. Empty between two turns."""
        self._last_ms: dict[TopicPartition, int] = {}
        self._look_at_ms = 0
        self._naming = naming or Naming()
        self._identity = Identity(kept_ids)
        self.discovery = Discovery(source, destination, clock, self._naming)

    def copies(self) -> Mapping[TopicPartition, PartitionCopy]:
        """Return every partition's current state. From any thread."""
        return dict(self._copies)

    def turn(self) -> bool:
        """Do what is due now. Return whether anything was fetched or appended, so that the next turn should follow at once."""
        self._discover()
        self._resume()
        self._skip()
        self._look_at_destination()
        fetched = self.admitted(self._fetch())
        self._acknowledge()
        appends = [append for one in fetched if (append := self._take(one)) is not None]
        if appends:
            self._destination.begin(appends)
        self._count_acknowledged()
        return bool(fetched) or bool(appends)

    def finish(self) -> None:
        """Wait for the appends in flight and count them. Call it after the last turn, too."""
        self._acknowledge()
        self._count_acknowledged()

    def close(self) -> None:
        """Close the connections, from any thread: a waiting fetch fails."""
        self._from_source.close()

    def _there(self, name: TopicPartition) -> TopicPartition:
        """Return a partition's name in the destination."""
        return TopicPartition(self._naming.destination_name(name.topic), name.partition)

    # -- find partitions

    def _discover(self) -> None:
        # Read before the ids are asked: what was copied by then was copied of the topic that has them.
        copied_to = {name: copy.copied_to for name, copy in self._copies.items()}
        found = self.discovery.look()
        if found is None:
            return
        for name in self._identity.confirm(copied_to, self.discovery.source_ids):
            # One that resumes or has stopped compares anyway; to put it off at each look would be to put it off for ever.
            if self._copies[name].phase in (Phase.COPYING, Phase.SKIPPING):
                self._trouble([name], MirrorError("the source's topic has another id: comparing with what was copied"))
        for topic, names in found.items():
            new = names - self._copies.keys()
            if new and self.discovery.prepare(topic, len(names)):
                for name in sorted(new):
                    self._copies[name] = PartitionCopy()
                    log.info("partition_found", topic=name.topic, partition=name.partition)
        for name in [name for name in self._copies if name.topic not in found]:
            # What is counted of it goes out with the next report; the destination keeps its data.
            del self._copies[name]
            self._last_ms.pop(name, None)
            self._from_source.forget(name)
            log.info("partition_gone", topic=name.topic, partition=name.partition)

    # -- find where to continue

    def _resume(self) -> None:
        now_ms = self._clock.monotonic_ms()
        due: dict[str, list[TopicPartition]] = {}
        for name, copy in self._copies.items():
            if partition_copy.is_due_to_resume(copy, now_ms):
                due.setdefault(name.topic, []).append(name)
        for topic, names in due.items():
            try:
                # The copy may have been deleted so that it is made anew.
                self._destination.prepare(topic, 1 + max(name.partition for name in self._copies if name.topic == topic))
                ends = self._ask_ends(names)
            except HeadraceError as error:
                self._trouble(names, error)
                continue
            for name in names:
                try:
                    self._resume_one(name, ends[name])
                except HeadraceError as error:
                    self._trouble([name], error)

    def _ask_ends(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, Ends]:
        self.discovery.source_ids = self._source.topic_ids()
        return tail_comparison.ends(self._source, self._destination.cluster, {name: self._there(name) for name in names})

    def _resume_one(self, name: TopicPartition, ends: Ends) -> None:
        self._resumed.add(name)
        if (fault := self._other_topic(name, ends)) is not None:
            copy = replace(self._copies[name], copied_to=ends.destination_end, source_end=ends.source_end)
            self._move(name, partition_copy.in_error(copy, Phase.DIVERGED, fault, self._clock.monotonic_ms()))
            return
        seen = self._compare(name, ends)
        position = self._reporter.position(*name)
        is_new = position is None
        counted_to = self._reporter.reported(*name) if position is None else position
        copy = partition_copy.resumed(self._copies[name], ends, seen, counted_to=counted_to, now_ms=self._clock.monotonic_ms())
        if copy.phase is Phase.COPYING and (position is None or copy.counted_to < position):
            # What is noted and not published of an earlier copy is dropped with it.
            self._reporter.begin(*name, copy.counted_to)
        self._move(name, copy)
        if copy.phase is Phase.COPYING and (is_new or copy.counted_to < copy.copied_to):
            log.info(
                "copying", topic=name.topic, partition=name.partition, from_offset=copy.copied_to, counted_to=copy.counted_to
            )

    def _other_topic(self, name: TopicPartition, ends: Ends) -> str | None:
        """Return why copying must not go on: the source's topic was made anew, and holds something else where it was copied."""
        present, there = self.discovery.source_ids.get(name.topic, ""), self._there(name)
        is_other, confirmed_to = self._identity.is_other(name, there, present)
        if is_other and ends.destination_start < ends.destination_end:
            end = ends.destination_end if confirmed_to is None else min(confirmed_to, ends.destination_end)
            if self._compare(name, replace(ends, destination_end=end)) is not TailComparison.SAME:
                return (
                    f"the source's topic was deleted and made anew since offset {end} was copied, and does not hold the same "
                    f"there; {WRITTEN_ANEW}"
                )
        self._identity.take(name, there, present, ends.destination_end)
        return None

    def _compare(self, name: TopicPartition, ends: Ends) -> TailComparison:
        return tail_comparison.compare(
            self._source,
            self._destination.cluster,
            name,
            self._there(name),
            start=ends.destination_start,
            end=ends.destination_end,
        )

    def _skip(self) -> None:
        for name, copy in self._copies.items():
            if copy.phase is not Phase.SKIPPING:
                continue
            try:
                if self._reporter.position(*name) is not None:
                    self._reporter.publish(PUBLISH_TIMEOUT_MS)
            except HeadraceError as error:
                self._trouble([name], error)
                continue
            after, gap = partition_copy.skipped(copy)
            # What the destination holds and nobody counted stays untold, and its windows UNKNOWN: the source no longer has it.
            counted_anew_from = max(copy.counted_to, min(copy.copied_to, copy.skip_to))
            self._reporter.begin(*name, counted_anew_from)
            if counted_anew_from > copy.counted_to:
                log.warning("count_gap", topic=name.topic, partition=name.partition, counted_anew_from=counted_anew_from)
            if gap is not None:
                self._reporter.skip(*name, gap.to_offset, EXPIRED)
                self._log_gap(name, gap)
            self._copies[name] = after

    def _look_at_destination(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms or self._destination.is_busy:
            return
        self._look_at_ms = now_ms + LOOK_EVERY_MS
        by_topic: dict[str, list[TopicPartition]] = {}
        for name, copy in self._copies.items():
            if copy.phase is Phase.COPYING:
                by_topic.setdefault(name.topic, []).append(name)
        for names in by_topic.values():
            try:
                ends = log_offsets(self._destination.cluster, {self._there(name): LATEST for name in names})
            except HeadraceError as error:
                self._trouble(names, error)
                continue
            for name in names:
                end = ends[self._there(name)]
                self._move(name, partition_copy.destination_seen(self._copies[name], end, now_ms))

    # -- copy

    def _fetch(self) -> list[FetchedPartition]:
        """Return what came. Where the source holds more, that is asked for before this returns."""
        fetched = self._receive()
        if not fetched:
            self._ask({}, 0 if self._destination.is_busy else self.wait_ms)
            fetched = self._receive()
        if any(one.batches and one.next_offset < one.high_watermark for one in fetched):
            self._ask({TopicPartition(one.topic, one.partition): one.next_offset for one in fetched}, 0)
        return fetched

    def _ask(self, follows: Mapping[TopicPartition, int], max_wait_ms: int) -> None:
        """Ask for every partition that is due: from where `follows` says, else from where its copy goes on."""
        now_ms = self._clock.monotonic_ms()
        copies = {name: copy for name, copy in self._copies.items() if partition_copy.is_due_to_fetch(copy, now_ms)}
        due = {name: follows.get(name, copy.fetch_offset) for name, copy in copies.items()}
        self._resumed.clear()
        try:
            self._from_source.ask(due, max_wait_ms)
        except HeadraceError as error:
            self._trouble(list(due), error)

    def _receive(self) -> list[FetchedPartition]:
        try:
            fetched = self._from_source.receive()
        except OffsetOutOfRange as error:
            name = TopicPartition(error.topic, error.partition)
            if self._is_awaited(name, error.offset):
                before, now_ms = self._copies[name], self._clock.monotonic_ms()
                self._move(name, partition_copy.out_of_range(before, error.log_start_offset, now_ms))
            return []
        except HeadraceError as error:
            self._trouble([name for name, offset in self._from_source.wanted.items() if self._is_awaited(name, offset)], error)
            return []
        fetched = [one for one in fetched if self._is_awaited(TopicPartition(one.topic, one.partition), one.requested_offset)]
        for one in fetched:
            if one.error is not None:
                self._trouble([TopicPartition(one.topic, one.partition)], one.error)
        # What was on its way when a pause was ordered is fetched again later.
        orders = self.governor.orders
        return [one for one in fetched if one.error is None and orders.pause_of(one.topic) is None]

    def _is_awaited(self, name: TopicPartition, requested_offset: int) -> bool:
        """Return whether the partition still goes on there. It does not if an append has failed since the fetch was asked for."""
        copy = None if name in self._resumed else self._copies.get(name)
        return copy is not None and copy.phase is Phase.COPYING and copy.fetch_offset == requested_offset

    def _take(self, one: FetchedPartition) -> Append | None:
        """Carry out the plan for one fetched partition; return the append, if there is one."""
        name = TopicPartition(one.topic, one.partition)
        before = self._copies.get(name)
        if before is None or before.phase is not Phase.COPYING or before.fetch_offset != one.requested_offset:
            # An append failed during this fetch: these batches no longer follow the destination's end.
            return None
        plan = partition_copy.after_fetch(
            before,
            [header for header, _ in one.batches],
            log_start_offset=one.log_start_offset,
            high_watermark=one.high_watermark,
            now_ms=self._clock.monotonic_ms(),
        )
        if plan.gap is not None or plan.count_only:
            self._count_acknowledged()
            if self._copies[name] is not before:
                return None
        try:
            if plan.gap is not None:
                self._pass_over(name, plan.gap, before.copied_to)
            self._count(name, one.batches[: plan.count_only])
        except HeadraceError as error:
            self._trouble([name], error)
            return None
        self._move(name, plan.copy)
        batches = one.batches[plan.count_only : plan.append_end]
        return Append(name=name, batches=batches, conditional_start=plan.conditional_start) if batches else None

    def _acknowledge(self) -> None:
        """Wait for the appends in flight. What is confirmed remains to be counted."""
        for ended in self._destination.finish():
            name = ended.append.name
            before = self._copies.get(name)
            if before is None:
                continue
            if ended.error is None:
                self._uncounted[name] = ended.append.batches
                self._move(name, partition_copy.acknowledged(before, ended.append.to_offset))
            elif ended.is_passing:
                self._trouble([name], ended.error)
            else:
                self._move(name, partition_copy.in_error(before, Phase.REFUSED, str(ended.error), self._clock.monotonic_ms()))

    def _count_acknowledged(self) -> None:
        while self._uncounted:
            name, batches = self._uncounted.popitem()
            try:
                self._count(name, batches)
            except HeadraceError as error:
                # The destination holds it and it is not counted: resuming counts it.
                self._trouble([name], error)

    def _count(self, name: TopicPartition, batches: Sequence[Batch]) -> None:
        position = self._reporter.position(*name)
        if batches and position is not None and position < batches[0][0].position:
            raise MirrorError(f"counted up to {position}, and {batches[0][0].position} was to follow: counting what lies between")
        while batches:
            noted = self._reporter.add_batches(*name, batches)
            if noted:
                self._last_ms[name] = batches[noted - 1][0].max_timestamp_ms
                self.tally.add(name.topic, batches[:noted])
            batches = batches[noted:]
            if batches:
                # Too many windows wait to be reported. Reporting them makes room.
                self._reporter.publish(PUBLISH_TIMEOUT_MS)

    def _pass_over(self, name: TopicPartition, gap: partition_copy.Gap, copied_to: int) -> None:
        self._quarantine.put(name, gap, previous_ms=self._last_ms.get(name))
        if gap.from_offset < copied_to:
            # The destination holds what the source can no longer serve: not lost, only not counted.
            self._reporter.publish(PUBLISH_TIMEOUT_MS)
            self._reporter.begin(*name, min(copied_to, gap.to_offset))
        self._reporter.skip(*name, gap.to_offset, "corrupt")
        self._log_gap(name, gap)

    # -- states and log

    def _trouble(self, names: Sequence[TopicPartition], error: HeadraceError) -> None:
        now_ms = self._clock.monotonic_ms()
        for name in names:
            before = self._copies.get(name)
            if before is not None:
                self._move(name, partition_copy.troubled(before, str(error), now_ms))

    def _move(self, name: TopicPartition, after: PartitionCopy) -> None:
        """Store the partition's new state. Log the changes that matter: trouble begins or ends, an error state."""
        before, self._copies[name] = self._copies[name], after
        topic, partition = name
        if after.phase in partition_copy.ERROR_PHASES and before.phase is not after.phase:
            log.error("copy_stopped", topic=topic, partition=partition, state=after.phase.value, error=after.trouble)
        elif before.trouble is None and after.trouble is not None:
            log.warning("copy_troubled", topic=topic, partition=partition, error=after.trouble)
        elif before.trouble is not None and after.trouble is None:
            log.info("copy_mended", topic=topic, partition=partition, at_offset=after.copied_to)

    def _log_gap(self, name: TopicPartition, gap: partition_copy.Gap) -> None:
        log.error(
            "offsets_lost",
            topic=name.topic,
            partition=name.partition,
            loss=gap.kind.value,
            from_offset=gap.from_offset,
            to_offset=gap.to_offset,
            records="unknown",
        )
