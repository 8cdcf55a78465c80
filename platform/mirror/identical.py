"""Copies between our clusters: the same batches at the same offsets, by conditional appends.

An append is sent and its result read later: the next fetch runs beside it, and what was confirmed is counted beside the next one.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ..client.connection.cluster import Cluster
from ..client.errors import ClientError
from ..client.fetch.fetched import FetchedPartition, TopicPartition
from ..client.fetch.log_offsets import LATEST, log_offsets_or_errors
from ..errors import HeadraceError
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from . import partition_copy
from .copies import Copies
from .counting import Batch, Counting
from .destination import Append, Destination
from .errors import WRITTEN_ANEW
from .partition_copy import Ends, Gap, Phase, TailComparison
from .placement import Standing
from .tail_comparison import TailComparer
from .topics.identity import Identity, KeepsIds
from .topics.naming import Naming

log = get_logger(__name__)

LOOK_EVERY_MS = 5_000
"""How often the destination's ends are read. It may lose data while nothing new arrives."""
MOST_LOOKED_AT = 300
"""Partitions of one look, which takes some 20 ms of processor. With more, each is looked at in turn."""


class IdenticalPlacement:
    """One source and one destination of ours."""

    def __init__(
        self,
        source: Cluster,
        destination: Destination,
        copies: Copies,
        counting: Counting,
        clock: Clock,
        *,
        naming: Naming | None = None,
        kept_ids: KeepsIds | None = None,
    ) -> None:
        self._source = source
        self._destination = destination
        self._copies = copies
        self._counting = counting
        self._clock = clock
        self._naming = naming or Naming()
        self._identity = Identity(kept_ids)
        self._tails = TailComparer(source, destination.cluster)
        self._uncounted: dict[TopicPartition, Sequence[Batch]] = {}
        """Confirmed in this turn. Empty between two turns."""
        self._look_at_ms = 0
        self._round: Iterator[TopicPartition] = iter(())
        """What is left of this round of looks."""

    @property
    def is_busy(self) -> bool:
        return self._destination.is_busy

    def is_open(self) -> bool:
        return True

    # -- find where to continue

    def standings(
        self, names: Sequence[TopicPartition], source_ids: Mapping[str, str]
    ) -> Mapping[TopicPartition, Standing | HeadraceError]:
        there = self._there(names)
        ends = self._tails.ends(there)
        found: dict[TopicPartition, Standing | HeadraceError] = {}
        known: dict[TopicPartition, Ends] = {}
        for name, one in ends.items():
            if isinstance(one, Ends):
                known[name] = one
            else:
                found[name] = one
        self._identity.read({name: there[name] for name in known})
        compared = self._tails.compare({name: (there[name], one) for name, one in known.items()})
        for name, one in known.items():
            comparison = compared[name]
            if isinstance(comparison, HeadraceError):
                found[name] = comparison
                continue
            try:
                fault = self._other_topic(name, there[name], one, source_ids.get(name.topic, ""), comparison)
            except HeadraceError as error:
                found[name] = error
                continue
            found[name] = Standing(ends=one, comparison=comparison, fault=fault)
        return found

    def _other_topic(
        self, name: TopicPartition, there: TopicPartition, ends: Ends, present: str, comparison: TailComparison
    ) -> str | None:
        """Return why copying must not continue: the source's topic was created again, and holds something else where it was
        copied.
        """
        is_other, confirmed_to = self._identity.is_other(name, present)
        if not is_other or ends.destination_start >= ends.destination_end:
            return None
        end = ends.destination_end if confirmed_to is None else min(confirmed_to, ends.destination_end)
        if end < ends.destination_end:
            comparison = self._tails.compare_one(name, there, start=ends.destination_start, end=end)
        if comparison is TailComparison.SAME:
            return None
        return (
            f"the source's topic was deleted and created again since offset {end} was copied, and does not hold the same there; "
            f"{WRITTEN_ANEW}"
        )

    def begun(self, standings: Mapping[TopicPartition, Standing], source_ids: Mapping[str, str]) -> None:
        there = self._there(list(standings))
        self._identity.take(
            {
                name: (there[name], source_ids.get(name.topic, ""), standing.ends.destination_end)
                for name, standing in standings.items()
            }
        )

    def confirm(self, copied_to: Mapping[TopicPartition, int], source_ids: Mapping[str, str]) -> list[TopicPartition]:
        return self._identity.confirm(copied_to, source_ids)

    def passed_over(self, name: TopicPartition, gap: Gap) -> None:
        """The offsets are the same: a gap shows by itself."""

    def look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms or self._destination.is_busy:
            return
        self._look_at_ms = now_ms + LOOK_EVERY_MS
        names = list(islice(self._round, MOST_LOOKED_AT))
        if not names:
            self._round = iter(list(self._copies))
            names = list(islice(self._round, MOST_LOOKED_AT))
        there = self._there([name for name in names if self._is_copying(name)])
        if not there:
            return
        try:
            ends = log_offsets_or_errors(self._destination.cluster, dict.fromkeys(there.values(), LATEST))
        except ClientError as error:
            self._copies.trouble(there, error)
            return
        for name, its in there.items():
            end = ends[its]
            if isinstance(end, ClientError):
                self._copies.trouble([name], end)
            elif end < self._copies[name].copied_to:
                self._copies.move(name, partition_copy.destination_seen(self._copies[name], end, now_ms))

    def _is_copying(self, name: TopicPartition) -> bool:
        copy = self._copies.get(name)
        return copy is not None and copy.phase is Phase.COPYING

    # -- copy

    def place(self, fetched: Sequence[FetchedPartition]) -> None:
        self._acknowledge()
        appends = [append for one in fetched if (append := self._take(one)) is not None]
        if appends:
            self._destination.begin(appends)
        self._count_acknowledged()

    def finish(self) -> None:
        self._acknowledge()
        self._count_acknowledged()

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
                self._counting.pass_over(name, plan.gap, before.copied_to)
                self._copies.log_gap(name, plan.gap)
            self._counting.count(name, one.batches[: plan.count_only])
        except HeadraceError as error:
            self._copies.trouble([name], error)
            return None
        if plan.copy != before:
            self._copies.move(name, plan.copy)
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
                self._copies.move(name, partition_copy.acknowledged(before, ended.append.to_offset))
            elif ended.is_passing:
                self._copies.trouble([name], ended.error)
            else:
                self._copies.stop(name, Phase.REFUSED, str(ended.error))

    def _count_acknowledged(self) -> None:
        while self._uncounted:
            name, batches = self._uncounted.popitem()
            try:
                self._counting.count(name, batches)
            except HeadraceError as error:
                # The destination holds it and it is not counted: resuming counts it.
                self._copies.trouble([name], error)

    def _there(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, TopicPartition]:
        """Return the partitions' names in the destination."""
        return {name: TopicPartition(self._naming.destination_name(name.topic), name.partition) for name in names}
