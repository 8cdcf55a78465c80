"""Carries out the decisions of `partition_copy`, turn by turn, on one thread: find where to continue, fetch, hand on.

How batches get to the destination is the placement's (`identical`, `restamped`). The next fetch is asked for before what came is
placed, so source, mirror and destination work at the same time. Memory is bounded by two fetch responses and one request for each
leader. Of partitions that are to be begun, a turn takes a bounded number: the others are fetched in between. A failure makes a
copy `troubled`; reading both logs' ends again repairs nearly all.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from ..client.connection.cluster import Cluster
from ..client.errors import OffsetOutOfRange
from ..client.fetch.fetched import FetchedPartition, TopicPartition
from ..errors import HeadraceError
from ..runtime.clock import Clock
from ..runtime.logs import get_logger
from . import partition_copy
from .control.governor import Governor
from .copies import Copies
from .counting import PUBLISH_TIMEOUT_MS, Counting
from .discovery import Discovery, Found
from .errors import MirrorError
from .fetching.source_fetch import SourceFetch
from .partition_copy import PartitionCopy, Phase
from .placement import Placement, Standing

log = get_logger(__name__)

FETCH_WAIT_MS = 300
"""How long a fetch waits if there is nothing new. A stop and a new topic wait no longer."""
LONG_TURN_MS = 2_000
"""A turn that lasts longer waits for a cluster, and does not learn meanwhile that the source grows."""
MOST_RESUMED = 200
FEWEST_RESUMED = 20
"""Partitions of one turn of which both logs' ends are read. The others wait meanwhile."""
LONGEST_RESUMING_MS = 400
"""After a turn that lasts longer the next one resumes half as many; after one of a quarter of it twice as many."""


class Forwarder:
    """The mirror's work, one `turn` after another. All but `copies` belongs to the thread that calls `turn`."""

    def __init__(
        self,
        *,
        source: Cluster,
        discovery: Discovery,
        fetching: SourceFetch,
        placement: Placement,
        copies: Copies,
        counting: Counting,
        governor: Governor,
        clock: Clock,
    ) -> None:
        self._source = source
        self.discovery = discovery
        self._fetching = fetching
        self._placement = placement
        self._states = copies
        self._counting = counting
        self.governor = governor
        """What an operator wishes: pauses and bounds."""
        self._clock = clock
        self.tally = counting.tally
        self._resumed: set[TopicPartition] = set()
        """Since the fetch was asked for: what comes of them may be of another log."""
        self._unconfirmed: Mapping[TopicPartition, int] | None = None
        """How far partitions were copied when the look began that is not answered yet."""
        self._answers = 0
        self.wait_ms = FETCH_WAIT_MS
        self.admitted: Callable[[list[FetchedPartition]], list[FetchedPartition]] = list
        """Returns what may be placed of a fetch: all of it, or nothing yet. The rest is fetched again."""
        self._resumed_at_once = MOST_RESUMED
        self._turned_at_ms = 0
        """When the last turn ended (monotonic)."""

    def copies(self) -> Mapping[TopicPartition, PartitionCopy]:
        """Return every partition's current state. From any thread."""
        return self._states.snapshot()

    @property
    def changes(self) -> int:
        """Return how often a state has changed. From any thread."""
        return self._states.changes

    def fetched_now(self) -> Container[TopicPartition]:
        """Return the partitions that are fetched now; none if the last turn lasts too long. From any thread."""
        if self._clock.monotonic_ms() - self._turned_at_ms > LONG_TURN_MS:
            return ()
        return self._fetching.names

    def turn(self) -> bool:
        """Do what is due now. Return whether anything was asked for, so that the next turn should follow at once.

        Raises ProducerFenced: another mirror took over.
        """
        self._discover()
        if not self._placement.is_open():
            return False
        began_ms = self._clock.monotonic_ms()
        resumed = self._resume()
        self._skip()
        self._placement.look()
        asked, fetched = self._fetch(can_wait=not resumed)
        self._placement.place(self.admitted(fetched))
        self._turned_at_ms = self._clock.monotonic_ms()
        if resumed:
            self._resumed_at_once = resumed_next(self._resumed_at_once, self._turned_at_ms - began_ms)
        return asked or resumed

    def finish(self) -> None:
        """Wait for what is on its way and count it. Call it after the last turn, too."""
        self._placement.finish()

    def close(self) -> None:
        """Close the connections, from any thread: a waiting fetch fails."""
        self.discovery.stop()
        self._fetching.close()

    # -- find partitions

    def _discover(self) -> None:
        found = self.discovery.take()
        if found.ready or found.gone or found.renewed:
            self._change(found)
        if self._unconfirmed is not None and self.discovery.answers > self._answers:
            self._renewed(self._placement.confirm(self._unconfirmed, self.discovery.source_ids))
            self._unconfirmed = None
        if not self.discovery.is_due():
            return
        # Read before the ids are asked: what was copied by then was copied of the topic that has them. A look that failed leaves
        # what was to be confirmed by it to the next one.
        self._unconfirmed = {**(self._unconfirmed or {}), **self._states.take_progress()}
        self._answers = self.discovery.answers
        self.discovery.begin()

    def _change(self, found: Found) -> None:
        new = [
            name
            for topic, partitions in found.ready.items()
            for name in (TopicPartition(topic, one) for one in partitions)
            if name not in self._states
        ]
        for name in new:
            self._states.add(name)
        if new:
            log.info("partitions_found", partitions=len(new), one_of_them=f"{new[0].topic}-{new[0].partition}")
        if found.renewed:
            self._renewed(name for name in list(self._states) if name.topic in found.renewed)
        gone = [name for name in self._states if name.topic in found.gone] if found.gone else []
        for name in gone:
            # What is counted of it goes out with the next report; the destination keeps its data.
            self._states.remove(name)
            self._counting.forget(name)
            log.info("partition_gone", topic=name.topic, partition=name.partition)

    def _renewed(self, names: Iterable[TopicPartition]) -> None:
        for name in names:
            copy = self._states.get(name)
            # One that resumes or has stopped compares anyway; to put it off at each look would be to put it off for ever.
            if copy is not None and copy.phase in (Phase.COPYING, Phase.SKIPPING):
                error = MirrorError("the source's topic has another id: comparing with what was copied")
                self._states.trouble([name], error)

    # -- find where to continue

    def _resume(self) -> bool:
        """Read both ends of some partitions that are due; return whether there were any."""
        names = self._states.due_to_resume(self._resumed_at_once)
        if not names:
            return False
        # The copy may have been deleted so that it is created again.
        self.discovery.again({name.topic for name in names if self._states[name].attempt})
        try:
            topics = sorted({name.topic for name in names})
            source_ids = self._source.topic_ids(topics)
            standings = self._placement.standings(names, source_ids)
            reported = self._counting.reported(names)
        except HeadraceError as error:
            self._states.trouble(names, error)
            return True
        sound: dict[TopicPartition, Standing] = {}
        for name in names:
            standing = standings[name]
            if isinstance(standing, HeadraceError):
                self._states.trouble([name], standing)
            elif standing.fault is not None:
                ends = standing.ends
                copy = partition_copy.ends_read(self._states[name], ends)
                self._states.move(name, copy)
                self._states.stop(name, Phase.DIVERGED, standing.fault)
                self._resumed.add(name)
            else:
                sound[name] = standing
        try:
            self._placement.begun(sound, source_ids)
        except HeadraceError as error:
            self._states.trouble(sound, error)
            return True
        begun = [name for name, standing in sound.items() if self._resume_one(name, standing, reported.get(name))]
        if begun:
            log.info("copying", partitions=len(begun), one_of_them=f"{begun[0].topic}-{begun[0].partition}")
        return True

    def _resume_one(self, name: TopicPartition, standing: Standing, reported: int | None) -> bool:
        """Move a partition to where it continues; return whether this process begins with it."""
        self._resumed.add(name)
        position = self._counting.reporter.position(*name)
        counted_to = reported if position is None else position
        now_ms = self._clock.monotonic_ms()
        copy = partition_copy.resumed(
            self._states[name], standing.ends, standing.comparison, counted_to=counted_to, now_ms=now_ms
        )
        if copy.phase is Phase.COPYING and (position is None or copy.counted_to < position):
            # What is noted and not published of an earlier copy is dropped with it.
            self._counting.reporter.begin(*name, copy.counted_to)
        self._states.move(name, copy)
        if copy.phase is Phase.COPYING and copy.counted_to < copy.copied_to:
            log.info(
                "counting_again",
                topic=name.topic,
                partition=name.partition,
                from_offset=copy.counted_to,
                to_offset=copy.copied_to,
            )
        return copy.phase is Phase.COPYING and position is None

    def _skip(self) -> None:
        for name in self._states.due_to_skip():
            copy = self._states[name]
            reporter = self._counting.reporter
            try:
                if reporter.position(*name) is not None:
                    reporter.publish(PUBLISH_TIMEOUT_MS)
            except HeadraceError as error:
                self._states.trouble([name], error)
                continue
            after, gap = partition_copy.skipped(copy)
            # What the destination holds and nobody counted stays untold, and its windows UNKNOWN: the source no longer has it.
            counted_anew_from = max(copy.counted_to, min(copy.copied_to, copy.skip_to))
            reporter.begin(*name, counted_anew_from)
            if counted_anew_from > copy.counted_to:
                log.warning("count_gap", topic=name.topic, partition=name.partition, counted_anew_from=counted_anew_from)
            if gap is not None:
                self._counting.expired(name, gap)
                self._states.log_gap(name, gap)
                self._placement.passed_over(name, gap)
            self._states.move(name, after)

    # -- copy

    def _fetch(self, *, can_wait: bool = True) -> tuple[bool, list[FetchedPartition]]:
        """Return whether anything was asked for, and what came. Where the source holds more, that is asked for before this
        returns. `can_wait`: whether the source may wait for something new.
        """
        asked = self._fetching.is_asked
        fetched = self._receive()
        if not fetched:
            self._ask({}, self.wait_ms if can_wait and not self._placement.is_busy else 0)
            asked = asked or self._fetching.is_asked
            fetched = self._receive()
        if any(one.batches and one.next_offset < one.high_watermark for one in fetched):
            self._ask({TopicPartition(one.topic, one.partition): one.next_offset for one in fetched}, 0)
        return asked, fetched

    def _ask(self, follows: Mapping[TopicPartition, int], max_wait_ms: int) -> None:
        """Ask for every partition that is due: from where `follows` says, else from where its copy continues."""
        wanted = self._states.due_to_fetch(follows)
        self._resumed.clear()
        try:
            self._fetching.ask(wanted, max_wait_ms)
        except HeadraceError as error:
            self._states.trouble(list(wanted.offsets), error)

    def _receive(self) -> list[FetchedPartition]:
        try:
            fetched = self._fetching.receive()
        except OffsetOutOfRange as error:
            name = TopicPartition(error.topic, error.partition)
            if self._is_awaited(name, error.offset):
                before, now_ms = self._states[name], self._clock.monotonic_ms()
                self._states.move(name, partition_copy.out_of_range(before, error.log_start_offset, now_ms))
            return []
        except HeadraceError as error:
            self._states.trouble([name for name in self._states.wanted.offsets if name not in self._resumed], error)
            return []
        # What was on its way when a pause was ordered is fetched again later.
        orders = self.governor.orders
        found = []
        silent = {name for name in self._states.mending if name in self._fetching.names and name not in self._resumed}
        for one in fetched:
            name = TopicPartition(one.topic, one.partition)
            silent.discard(name)
            if not self._is_awaited(name, one.requested_offset):
                continue
            if one.error is not None:
                self._states.trouble([name], one.error)
            elif orders.pause_of(one.topic) is None:
                found.append(one)
        for name in silent:
            # Nothing was said of it: it has come to the end of the source.
            self._states.move(name, partition_copy.caught_up(self._states[name]))
        return found

    def _is_awaited(self, name: TopicPartition, requested_offset: int) -> bool:
        """Return whether the partition still continues there. It does not if an append has failed since the fetch was asked
        for.
        """
        copy = None if name in self._resumed else self._states.get(name)
        return copy is not None and copy.phase is Phase.COPYING and copy.fetch_offset == requested_offset


def resumed_next(count: int, took_ms: int) -> int:
    """Return how many partitions to resume in the next turn after one with `count` of them."""
    if took_ms > LONGEST_RESUMING_MS:
        return max(FEWEST_RESUMED, count // 2)
    return min(MOST_RESUMED, 2 * count) if took_ms < LONGEST_RESUMING_MS // 4 else count
