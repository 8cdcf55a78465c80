"""What sinks report to the audit, killed between any two steps: each record once, and nothing that is not there permanently."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.model.messages import CORRUPT, Skipped
from headrace.audit.publisher import RangeReporter, ReportNotSent
from headrace.client.consumer.stream_message import Message
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader.counts import ReadCounts
from tests.support.audit_topic import AuditTopic, ReportedPositions
from tests.support.told_by_ranges import ToldByRanges

W = 600_000
NAME = TopicPartition("clicks", 0)
TIER = "sink:clicks"
LENGTH = 40
STEPS = ("destination", "quarantine", "told", "committed")


def window_of(offset: int) -> int:
    return (offset // 7) * W


def message(offset: int) -> Message:
    return Message(*NAME, offset, offset + 1, window_of(offset) + 5, None, b"x", ())


@dataclass
class World:
    """One partition's log, a destination, a quarantine, a group's offset, and the audit topic: what outlives a process."""

    poison: frozenset[int]
    refused: frozenset[int]
    topic: AuditTopic = field(default_factory=AuditTopic)
    positions: ReportedPositions = field(default_factory=ReportedPositions)
    there: set[int] = field(default_factory=set)
    aside: set[int] = field(default_factory=set)
    committed: int = 0
    ledger: int = 0
    """A sink of files: what is before is in files."""

    def life(self, turns: list[int], dies_at: str | None, *, is_ledgered: bool) -> None:
        """Play one process: it reads so many records a turn, and flushes; it is killed in the last turn before a step."""
        counts = ReadCounts(RangeReporter(tier=TIER, instance="i", sender=self.topic, positions=self.positions))
        begun = max(self.ledger, self.committed) if is_ledgered else self.committed
        told = counts.reported(NAME)
        at = max(self.committed, min(begun, told or 0))
        counts.begin(NAME, at, told)
        for number, count in enumerate(turns):
            taken: list[int] = []
            for _ in range(min(count, LENGTH - at)):
                if at not in self.poison and at >= begun:
                    taken.append(at)
                counts.count(message(at), is_held=at not in self.poison)
                at += 1
            for step in STEPS:
                if step == dies_at and number == len(turns) - 1:
                    return
                if step == "destination":
                    self.there |= set(taken) - self.refused
                    self.ledger = at if taken else self.ledger
                    for offset in sorted(set(taken) & self.refused):
                        counts.refuse(message(offset))
                elif step == "quarantine":
                    self.aside |= {one for one in self.poison | self.refused if one < at}
                elif step == "told":
                    counts.tell({NAME: at}, 1_000)
                else:
                    self.committed = at

    def said(self) -> ToldByRanges:
        return ToldByRanges(self.topic.ranges)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.sampled_from([None, *STEPS])), min_size=1, max_size=5
    ),
    st.sets(st.integers(0, LENGTH - 1), max_size=6),
    st.sets(st.integers(0, LENGTH - 1), max_size=6),
    st.booleans(),
)
def test_killed_between_any_two_steps_it_tells_what_is_there_and_nothing_else(
    lives: list[tuple[list[int], str | None]], poison: set[int], refused: set[int], is_ledgered: bool
) -> None:
    # A sink of files refuses nothing: what it has taken is in a file.
    world = World(frozenset(poison), frozenset() if is_ledgered else frozenset(refused - poison))
    for turns, dies_at in lives:
        world.life(turns, dies_at, is_ledgered=is_ledgered)
        told = world.said().records.get(0, {})
        assert {offset for offset, words in told.items() if words[0][1] == "held"} <= world.there
        assert {offset for offset, words in told.items() if words[0][1] == "quarantined"} <= world.aside
        assert all(len(words) == 1 and words[0][0] == window_of(offset) for offset, words in told.items())
    world.life([LENGTH], None, is_ledgered=is_ledgered)
    said = world.said()
    assert said.covered[0] == [(0, LENGTH)]
    assert sorted(said.records[0]) == list(range(LENGTH))
    kinds = {offset: words[0][1] for offset, words in said.records[0].items()}
    assert {offset for offset, kind in kinds.items() if kind == "quarantined"} == world.poison | world.refused
    assert world.there == set(range(LENGTH)) - world.poison - world.refused


def test_records_read_again_are_redelivered_and_ranges_that_cannot_be_read_are_skipped_by_name() -> None:
    world = World(frozenset(), frozenset())
    world.life([10], None, is_ledgered=False)
    counts = ReadCounts(RangeReporter(tier=TIER, instance="i", sender=world.topic, positions=world.positions))
    counts.begin(NAME, 4, counts.reported(NAME))
    for offset in range(4, 12):
        counts.count(message(offset), is_held=True)
    counts.skip(NAME, 11, 20, CORRUPT)
    counts.tell({NAME: 20}, 1_000)
    said = world.said()
    assert sorted(said.records[0]) == list(range(12))
    assert (said.redelivered, said.skipped[0]) == (6, [Skipped(12, 20, "corrupt")])
    counts.end([NAME])
    counts.count(message(30), is_held=True)
    counts.tell({NAME: 31}, 1_000)
    assert world.said().covered[0] == [(0, 20)]


def test_while_the_audit_topic_takes_nothing_the_backlog_is_bounded_and_told_later() -> None:
    world = World(frozenset(), frozenset())
    reporter = RangeReporter(tier=TIER, instance="i", sender=world.topic, positions=world.positions)
    counts = ReadCounts(reporter, most_stretches=3)
    counts.begin(NAME, 0, None)
    world.topic.refuses = world.topic.loses = True
    offset = 0
    while not counts.is_full:
        counts.count(message(offset), is_held=True)
        offset += 2
    assert offset == 6
    try:
        counts.tell({NAME: offset}, 1_000)
    except ReportNotSent:
        assert counts.is_full, "what was not told must not make room"
    else:
        raise AssertionError("told to a topic that is away")
    world.topic.refuses = world.topic.loses = False
    counts.tell({NAME: offset}, 1_000)
    assert not counts.is_full
    assert sorted(world.said().records[0]) == [0, 2, 4]
