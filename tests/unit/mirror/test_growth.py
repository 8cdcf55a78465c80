"""What the mirror does for n and for 2 n topics: nothing at rest, twice as much where topics are new, never the square. Calls are
counted, not timed.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from headrace.audit.publisher import RangeReporter
from headrace.client.connection.control_plane import ClusterFacts, Listing
from headrace.client.errors import BrokerUnreachable
from headrace.client.fetch.fetched import FetchedPartition, TopicPartition
from headrace.client.fetch.wanted import Wanted
from headrace.errors import HeadraceError
from headrace.mirror import copies as copies_module
from headrace.mirror import discovery as discovery_module
from headrace.mirror import forwarder as forwarder_module
from headrace.mirror import partition_copy, stall
from headrace.mirror.copies import Copies
from headrace.mirror.discovery import MADE_AT_ONCE, MOST_MADE, Discovery
from headrace.mirror.errors import FewerPartitions
from headrace.mirror.forwarder import FEWEST_RESUMED, LONGEST_RESUMING_MS, MOST_RESUMED, Forwarder, resumed_next
from headrace.mirror.identical import MOST_LOOKED_AT
from headrace.mirror.partition_copy import Ends, PartitionCopy, Phase
from headrace.mirror.placement import Standing
from headrace.mirror.stall import Progress
from headrace.mirror.topics.naming import Naming
from headrace.runtime.clock import ManualClock
from tests.support.audit_topic import AuditTopic, ReportedPositions
from tests.unit.mirror.test_bounds import begin, forwarder_of


def listing_of(topics: Collection[str], partitions: int = 2, id_of: Callable[[str], str] = str) -> Listing:
    facts = ClusterFacts(brokers={}, controller_id=1, topics={})
    return Listing(
        facts=facts,
        partitions=dict.fromkeys(topics, tuple(range(partitions))),
        ids={topic: id_of(topic) for topic in topics},
        answered=(12, b""),
    )


class ClusterDouble:
    """Answers with a listing, and counts how often its topics are walked over."""

    def __init__(self) -> None:
        self.found = listing_of([])
        self.is_away = False

    def listing(self, topics: object, *, lane: str) -> Listing:
        if self.is_away:
            raise BrokerUnreachable("there", "Metadata", "gone", was_sent=False)
        return self.found

    def has(self, topics: Collection[str]) -> None:
        self.found = listing_of(topics)


class TopicsDouble:
    """Makes every topic but some, and notes the sizes of the requests."""

    def __init__(self) -> None:
        self.cluster: Any = ClusterDouble()
        self.refuses: set[str] = set()
        self.asked: list[int] = []

    def prepare(self, wanted: Mapping[str, int], present: Mapping[str, Collection[int]]) -> Mapping[str, HeadraceError | None]:
        self.asked.append(len(wanted))
        found = {topic: FewerPartitions(topic, 2, 0, "no") if topic in self.refuses else None for topic in wanted}
        made = [topic for topic, error in found.items() if error is None]
        self.cluster.has({*self.cluster.found.partitions, *made})
        return found


class CountedNaming(Naming):
    """Counts how often a name is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def is_wanted(self, topic: str) -> bool:
        self.looks += 1
        return super().is_wanted(topic)

    def destination_name(self, topic: str) -> str:
        self.looks += 1
        return super().destination_name(topic)


def topics(count: int) -> list[str]:
    return [f"idle-{number:05}" for number in range(count)]


def discovery_of(count: int) -> tuple[Discovery, ClusterDouble, TopicsDouble, CountedNaming]:
    source: Any = ClusterDouble()
    destination, naming = TopicsDouble(), CountedNaming()
    source.has(topics(count))
    return Discovery(source, destination, ManualClock(1_000), naming), source, destination, naming


def looks_of(count: int) -> tuple[int, int]:
    """Return how many names are looked at until all topics are ready, and in a look at rest."""
    discovery, _, destination, naming = discovery_of(count)
    ready: dict[str, tuple[int, ...]] = {}
    while len(ready) < count:
        discovery.look()
        ready |= discovery.take().ready
    discovery.look()  # the destination's own change is seen once
    until_ready, naming.looks = naming.looks, 0
    requests = len(destination.asked)
    discovery.look()
    assert len(destination.asked) == requests
    return until_ready, naming.looks


def test_a_look_at_rest_looks_at_no_topic_and_a_new_topic_costs_the_same_among_twice_as_many() -> None:
    few, at_rest = looks_of(400)
    many, at_rest_of_many = looks_of(800)
    assert at_rest == at_rest_of_many == 0
    assert many <= 2.2 * few


def test_a_flood_of_topics_is_made_some_at_a_time_and_a_look_makes_a_bounded_number() -> None:
    discovery, _, destination, _ = discovery_of(MOST_MADE + 2 * MADE_AT_ONCE)
    discovery.look()
    assert destination.asked == [MADE_AT_ONCE] * (MOST_MADE // MADE_AT_ONCE)
    assert len(discovery.take().ready) == MOST_MADE
    assert discovery.is_due()
    discovery.look()
    assert len(discovery.take().ready) == 2 * MADE_AT_ONCE
    assert not discovery.is_due()


def test_topics_that_cannot_be_made_keep_no_other_waiting() -> None:
    discovery, source, destination, _ = discovery_of(3 * MOST_MADE)
    destination.refuses = set(topics(2 * MOST_MADE))
    ready: set[str] = set()
    for _ in range(4):
        discovery.look()
        ready |= discovery.take().ready.keys()
    assert ready == set(topics(3 * MOST_MADE)) - destination.refuses
    assert "partitions" in str(discovery.trouble)
    source.has(["honest", *topics(3 * MOST_MADE)])
    for _ in range(4):
        discovery.look()
        ready |= discovery.take().ready.keys()
    assert "honest" in ready


def test_topics_that_go_or_are_made_anew_or_get_partitions_are_told_once() -> None:
    discovery, source, _, _ = discovery_of(3)
    discovery.look()
    first, second, third = topics(3)
    assert set(discovery.take().ready) == {first, second, third}
    source.found = replace(listing_of([first, second]), ids={first: "another", second: second})
    source.found = replace(source.found, partitions={first: (0, 1), second: (0, 1, 2)})
    discovery.look()
    found = discovery.take()
    assert (found.gone, found.renewed, found.ready) == ({third}, {first}, {second: (0, 1, 2)})
    discovery.look()
    assert discovery.take() is discovery_module.NOTHING


def test_a_copy_that_was_deleted_is_made_again_and_a_cluster_that_is_away_is_told() -> None:
    discovery, _, destination, _ = discovery_of(3)
    discovery.look()
    discovery.take()
    destination.cluster.has(topics(2))
    discovery.look()
    assert set(destination.cluster.found.partitions) == set(topics(3))
    destination.cluster.is_away = True
    discovery.look()
    assert "gone" in str(discovery.trouble)
    assert not discovery.is_due()


# -- the forwarder


class CountedSource:
    """A source without anything new."""

    max_wait_ms = max_bytes = partition_max_bytes = 0

    def __init__(self) -> None:
        self.changed: list[int] = []

    def begin(self, wanted: Wanted) -> Wanted:
        self.changed.append(len(wanted.take_changes()))
        return wanted

    def finish(self, wanted: Wanted) -> list[FetchedPartition]:
        return []


class StandingsDouble:
    """Every partition is at 10 in both clusters."""

    is_busy = False

    def __init__(self) -> None:
        self.asked: list[int] = []

    def is_open(self) -> bool:
        return True

    def standings(self, names: Collection[TopicPartition], ids: object) -> Mapping[TopicPartition, Standing]:
        self.asked.append(len(names))
        ends = Ends(source_start=0, source_end=10, destination_start=0, destination_end=10)
        return {name: Standing(ends=ends) for name in names}

    def begun(self, *_: object) -> None:
        pass

    def confirm(self, *_: object) -> list[TopicPartition]:
        return []

    look = finish = lambda self: None

    def place(self, fetched: Collection[FetchedPartition]) -> None:
        assert not fetched


def at_rest(count: int) -> tuple[Forwarder, StandingsDouble, CountedSource]:
    reporter = RangeReporter(tier="mirror", instance="m", sender=AuditTopic(), positions=ReportedPositions())
    forwarder: Any = forwarder_of(reporter)
    placement, source = StandingsDouble(), CountedSource()
    forwarder._placement, forwarder._fetching.fetcher = placement, source
    forwarder._source = TopicIds()
    forwarder._discover = lambda: None
    for number in range(count):
        forwarder._states.add(TopicPartition(f"idle-{number // 2}", number % 2))
    return forwarder, placement, source


class TopicIds:
    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return dict.fromkeys(topics, "id")


def moves_of(count: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Return how many states are looked at until all partitions are resumed, in a turn at rest, and how many turns it took."""
    looked = Counter[str]()
    due = partition_copy.is_due_to_resume
    with monkeypatch.context() as patch:
        patch.setattr(
            copies_module.partition_copy, "is_due_to_resume", lambda *words: (looked.update(["resume"]), due(*words))[1]
        )
        put = Copies._put
        patch.setattr(Copies, "_put", lambda *words: (looked.update(["put"]), put(*words))[1])
        forwarder, placement, source = at_rest(count)
        turns = 0
        while forwarder._states._to_resume:
            assert forwarder.turn()
            turns += 1
        assert all(asked <= MOST_RESUMED for asked in placement.asked)
        resumed = looked.total()
        looked.clear()
        forwarder.turn()
        del source.changed[:]
        forwarder.turn()
        assert source.changed == [0]
        return resumed, looked.total(), turns


def test_a_turn_at_rest_looks_at_no_partition_and_resuming_costs_each_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    few, at_rest_of_few, turns = moves_of(2 * MOST_RESUMED, monkeypatch)
    many, at_rest_of_many, twice_the_turns = moves_of(4 * MOST_RESUMED, monkeypatch)
    assert at_rest_of_few == at_rest_of_many == 0
    assert (turns, twice_the_turns) == (2, 4)
    assert many <= 2.1 * few


def test_between_two_portions_of_partitions_that_begin_the_others_are_fetched() -> None:
    forwarder, placement, source = at_rest(5 * MOST_RESUMED)
    begin(forwarder, busy := TopicPartition("busy", 0), PartitionCopy(phase=Phase.COPYING))
    for _ in range(5):
        forwarder.turn()
    assert placement.asked == [MOST_RESUMED] * 5
    assert len(source.changed) == 5
    assert busy in forwarder._fetching.names
    assert forwarder_module.FETCH_WAIT_MS not in {source.max_wait_ms}


def test_a_look_at_the_destination_asks_about_a_bounded_number_and_comes_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    reporter = RangeReporter(tier="mirror", instance="m", sender=AuditTopic(), positions=ReportedPositions())
    forwarder: Any = forwarder_of(reporter)
    count = 2 * MOST_LOOKED_AT + 10
    for number in range(count):
        begin(forwarder, TopicPartition("idle", number), PartitionCopy(phase=Phase.COPYING))
    asked: list[list[TopicPartition]] = []
    monkeypatch.setattr(
        "headrace.mirror.identical.log_offsets_or_errors",
        lambda cluster, wanted: (asked.append(list(wanted)), dict.fromkeys(wanted, 0))[1],
    )
    placement = forwarder._placement
    for _ in range(3):
        placement._look_at_ms = 0
        placement.look()
    assert [len(one) for one in asked] == [MOST_LOOKED_AT, MOST_LOOKED_AT, 10]
    assert len({name for one in asked for name in one}) == count


def test_the_watch_computes_anew_what_has_changed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[TopicPartition] = []
    made = stall._observed
    monkeypatch.setattr(stall, "_observed", lambda *words, **more: (computed.append(words[1]), made(*words, **more))[1])
    copies = {TopicPartition("idle", number): PartitionCopy(phase=Phase.COPYING) for number in range(200)}
    progress = stall.observed(Progress(), copies, {}, 0)
    assert len(computed) == 200
    del computed[:]
    copies[TopicPartition("idle", 7)] = replace(copies[TopicPartition("idle", 7)], source_end=9)
    progress = stall.observed(progress, copies, {}, 1_000)
    assert len(computed) == 1
    assert progress.waiting == (TopicPartition("idle", 7),)
    assert stall.observed(progress, copies, {}, 2_000).stalled_since_ms == 0


def test_what_was_fetched_and_not_placed_is_fetched_again_from_where_the_copy_goes_on() -> None:
    """The next fetch is asked for from behind what came, before it is placed."""
    copies = Copies(ManualClock(1_000))
    name = TopicPartition("clicks", 0)
    copies.add(name)
    copies.move(name, PartitionCopy(phase=Phase.COPYING, counted_to=10, copied_to=10, sent_to=10))
    assert copies.due_to_fetch({name: 50}).offsets == {name: 50}
    assert copies.due_to_fetch({}).offsets == {name: 10}
    copies.due_to_fetch({name: 50})
    copies.remove(name)
    assert not copies.due_to_fetch({}).offsets


def test_a_partition_that_mends_and_is_not_named_in_a_fetch_has_come_to_the_end() -> None:
    """With fetch sessions a source that has nothing more says nothing: the failure before must not stay for ever."""
    forwarder, _, _ = at_rest(0)
    name = TopicPartition("clicks", 0)
    begin(forwarder, name, PartitionCopy(phase=Phase.COPYING, trouble="it was away", attempt=3))
    forwarder.turn()
    copy = forwarder.copies()[name]
    assert (copy.trouble, copy.attempt) == (None, 0)


def test_slow_turns_resume_fewer_partitions_and_fast_ones_as_many_as_before() -> None:
    counts = [MOST_RESUMED]
    for _ in range(6):
        counts.append(resumed_next(counts[-1], LONGEST_RESUMING_MS + 1))
    assert counts == [200, 100, 50, 25, 20, 20, 20]
    assert counts[-1] == FEWEST_RESUMED
    assert resumed_next(50, LONGEST_RESUMING_MS // 2) == 50
    assert [resumed_next(20, 10), resumed_next(150, 10)] == [40, MOST_RESUMED]


def test_a_mirror_whose_turns_are_slow_makes_the_next_ones_short(monkeypatch: pytest.MonkeyPatch) -> None:
    forwarder, placement, _ = at_rest(2 * MOST_RESUMED)
    clock = ManualClock()
    forwarder._clock = clock
    standings = placement.standings

    def slow(names: Collection[TopicPartition], ids: object) -> Mapping[TopicPartition, Standing]:
        clock.advance(LONGEST_RESUMING_MS + 1)
        return standings(names, ids)

    monkeypatch.setattr(placement, "standings", slow)
    for _ in range(4):
        forwarder.turn()
    assert placement.asked == [MOST_RESUMED, MOST_RESUMED // 2, MOST_RESUMED // 4, MOST_RESUMED // 8]
