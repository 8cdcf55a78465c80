"""Random histories of one reading loop: its statistics balance after each step, no position passes a record that is not done, and
the audit hears of each record once.
"""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.client.deduplication import Deduplicator
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader.handoff import Handoff
from headrace.reader.iterating import HoldsNothing
from headrace.reader.processor import ProcessorAway, RefusedRecord
from headrace.reader.record import EventRecord
from headrace.reader.statistics import statistics_of
from headrace.reader.steered_loop import SteeredLoop
from headrace.runtime.lifecycle import StopSignal
from tests.support.told_by_ranges import ToldByRanges

from .pretend_group import NAME, Consumer, World


class Handling(HoldsNothing):
    """Done at once; refuses what it is told to, and can be away."""

    def __init__(self, refused: Collection[int]) -> None:
        self.refused, self.is_away = refused, False
        self.handled: set[int] = set()
        self._waiting: list[RefusedRecord] = []

    def take(self, record: EventRecord) -> None:
        if self.is_away:
            raise ProcessorAway("not now")
        if record.event["number"] in self.refused:
            self._waiting.append(RefusedRecord(record, "never", "handler_failed"))
        else:
            self.handled.add(record.offset)

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def end(self, partitions: Collection[TopicPartition]) -> None:
        self._waiting.clear()


STEP = st.one_of(
    st.tuples(st.just("read"), st.integers(1, 9)),
    st.sampled_from(
        [
            ("flush",),
            ("assign",),
            ("revoke",),
            ("lose",),
            ("pause",),
            ("resume",),
            ("unsure",),
            ("sure",),
            ("commits away",),
            ("quarantine away",),
            ("audit away",),
            ("all back",),
            ("handler away",),
        ]
    ),
    st.tuples(st.just("seek"), st.integers(0, 29)),
    st.tuples(st.just("done"), st.integers(0, 5)),
)
HISTORY = st.lists(STEP, max_size=25)
SOME = st.frozensets(st.integers(0, 29), max_size=4)


class Played:
    """One history."""

    def __init__(self, patch: pytest.MonkeyPatch, poison: frozenset[int], refused: frozenset[int], **more: Any) -> None:
        self.world = World(poison)
        consumers = self.world.install(patch)
        self.handling = Handling(refused)
        self.is_paused = False
        self.handoff: Handoff | None = more.get("handoff")
        self.loop = SteeredLoop(
            self.world.settings(flush_every_ms=1 << 40), self.handling, is_paused=lambda _name: self.is_paused, **more
        )
        self.loop._stop = self.stop = _NeverWaits()
        self.loop.start(self.stop)
        self.consumer: Consumer = consumers[0]
        self.in_hand: list[EventRecord] = []
        self.passed_over: set[int] = set()

    def step(self, name: str, *words: int) -> None:
        world, consumer, loop = self.world, self.consumer, self.loop
        match name:
            case "read":
                for _ in range(words[0]):
                    self.read()
            case "flush":
                loop._flush_at_ms = loop._look_at_ms = 0
                self.read()
                loop._flush_at_ms = 1 << 60
            case "assign":
                consumer.assign()
            case "revoke":
                consumer.revoke()
                self.finish()
                self.read()
            case "lose":
                consumer.lose()
                self.read()
            case "pause" | "resume":
                self.is_paused = name == "pause"
                loop.order(loop.obey_pauses)
                self.read()
            case "seek" if loop.owns(NAME):
                self.finish()
                loop.order(lambda: loop.seek(NAME, world.offsets[words[0]]))
                self.read()
            case "unsure" | "sure":
                consumer.is_sure = name == "sure"
            case "commits away":
                world.refuses_commits = True
            case "quarantine away":
                world.refuses_quarantine = True
            case "audit away":
                world.topic.refuses = world.topic.loses = True
            case "handler away":
                self.handling.is_away = True
            case "all back":
                self.all_back()
            case "done" if self.in_hand:
                self.done(self.in_hand[words[0] % len(self.in_hand)])

    def read(self) -> None:
        if self.handoff is None:
            record = self.loop.next()
            if record is not None:
                self.loop.process(record)
            return
        self.loop.read_ahead()
        while self.handoff._queue:
            record = self.handoff._queue.popleft()
            self.handoff._in_hand[record.of, record.offset] = 1e18
            self.in_hand.append(record)

    def done(self, record: EventRecord) -> None:
        assert self.handoff is not None
        self.in_hand.remove(record)
        is_refused = record.event["number"] in self.handling.refused
        if not is_refused:
            self.handling.handled.add(record.offset)
        self.handoff.done(record, "never" if is_refused else None)

    def finish(self) -> None:
        for record in [*self.in_hand]:
            self.done(record)

    def all_back(self) -> None:
        self.world.refuses_commits = self.world.refuses_quarantine = self.handling.is_away = False
        self.world.topic.refuses = self.world.topic.loses = False
        self.consumer.is_sure = True

    def check(self) -> None:
        assert statistics_of([self.loop]).is_balanced, statistics_of([self.loop])
        done = self.handling.handled | self.world.aside
        told = ToldByRanges(self.world.topic.ranges)
        skipped = told.skipped.get(0, [])
        undone = [
            one
            for one in self.world.offsets
            if one < self.world.committed and one not in done and not any(a <= one < b for a, b, _ in skipped)
        ]
        assert undone == [], "committed past them"
        for offset, words in told.records.get(0, {}).items():
            ((_, kind, _),) = words
            assert offset in (self.handling.handled if kind == "held" else self.world.aside)

    def end(self) -> ToldByRanges:
        """Everything is well, and all is read; then an orderly end. Return what the audit knows."""
        self.all_back()
        self.is_paused = False
        self.loop.order(self.loop.obey_pauses)
        for _ in range(3):
            self.consumer.assign()
            for _ in range(2 * self.world.length):
                self.read()
                self.finish()
        self.loop.close()
        self.check()
        found = statistics_of([self.loop])
        assert found.in_work == 0
        assert self.world.committed == self.world.end
        return ToldByRanges(self.world.topic.ranges)


class _NeverWaits(StopSignal):
    def wait(self, timeout_ms: int) -> bool:
        return self.is_set()


def play(history: list[tuple[Any, ...]], poison: frozenset[int], refused: frozenset[int], **more: Any) -> Played:
    with pytest.MonkeyPatch.context() as patch:
        played = Played(patch, poison, refused - poison, **more)
        played.consumer.assign()
        for step in history:
            played.step(*step)
            played.check()
        told = played.end()
        # Each offset is told of, once: there are no gaps.
        assert told.covered[0] == [(0, played.world.end)]
        skipped = told.skipped.get(0, [])
        known = {*told.records[0], *(one for one in played.world.offsets if any(a <= one < b for a, b, _ in skipped))}
        assert known == {*played.world.offsets}
    return played


@settings(max_examples=60, deadline=None)
@given(HISTORY, SOME, SOME)
@example([("read", 5), ("handler away",), ("read", 3)], frozenset(), frozenset())
@example([("pause",), ("revoke",)], frozenset(), frozenset())
@example([("read", 9), ("seek", 2), ("read", 3), ("seek", 20), ("read", 4)], frozenset({1}), frozenset({3}))
def test_a_loop_with_a_handler_balances_and_tells_all(
    history: list[tuple[Any, ...]], poison: frozenset[int], refused: frozenset[int]
) -> None:
    play(history, poison, refused)


@settings(max_examples=60, deadline=None)
@given(HISTORY, SOME, SOME)
@example([("read", 9), ("done", 3), ("done", 0), ("flush",), ("lose",), ("assign",), ("read", 9)], frozenset({4}), frozenset({5}))
def test_so_does_one_whose_records_are_done_in_any_order(
    history: list[tuple[Any, ...]], poison: frozenset[int], refused: frozenset[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handoff, "wait", lambda self, timeout_ms: None)
        play(history, poison, refused, handoff=Handoff())


def test_what_a_deduplicator_knows_is_left_out_after_a_seek() -> None:
    played = play([("read", 9), ("seek", 0), ("read", 9)], frozenset({2}), frozenset({3}), seen=Deduplicator())
    assert played.loop.repeated > 0


def test_the_audit_counts_what_a_seek_back_hands_out_again_as_redelivered() -> None:
    with pytest.MonkeyPatch.context() as patch:
        played = Played(patch, frozenset(), frozenset())
        played.consumer.assign()
        for step in [("read", 9), ("flush",)]:
            played.step(*step)
        read = played.loop.read
        played.step("seek", 2)
        assert played.end().redelivered == read - 2
