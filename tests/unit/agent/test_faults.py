"""What the broker forgets, what sources lose, what nobody can tell: each is reported by its name."""

from dataclasses import replace

import pytest

from headrace.agent.errors import StateRefused
from headrace.agent.plan.settling import LOOK_AFTER_MS
from headrace.audit.model.facts import Kind
from headrace.audit.model.windows import WINDOW_MS

from .sources import MemorySource
from .world import DEADLINE_MS, START_MS, Crashed, World


def crash_after_sending(world: World, journal: MemorySource, records: int) -> None:
    """Leave a state with batches that the broker has stored, and of which the agent knows nothing more than its plan."""

    def step(name: str) -> None:
        if name == "after send" and sum(world.numbers(journal.topic).values()) >= records:
            raise Crashed

    with world.running(step) as agent, pytest.raises(Crashed):
        world.work(agent, lambda: False, "crashes")


def forget_producers(world: World) -> None:
    """Have the broker forget every producer, as it does with idle ones."""

    def forget() -> None:
        for partition in world.broker.table:
            partition.log._end._producers.restore(())

    world.broker.on_loop(forget)


def finish(world: World) -> None:
    """Ship what there is, close the journals, and let the windows pass."""
    for journal in world.group.sources:
        journal.is_over = True
    with world.running() as agent:
        world.work(agent, lambda: all(one.is_removed for one in world.group.sources), "every journal is removed")
        world.clock.jump(2 * WINDOW_MS)
        world.work(agent, lambda: all(one.kind is not Kind.OPEN for one in world.verdicts().values()), "decided")


def test_a_batch_sent_before_the_crash_is_not_sent_twice(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(10), at_ms=START_MS)
    crash_after_sending(world, journal, 10)
    assert journal.released == 0
    finish(world)
    assert world.numbers() == dict.fromkeys(range(10), 1)
    assert {one.kind for one in world.verdicts().values()} == {Kind.COMPLETE}


def test_a_broker_that_forgot_the_producer_is_read_back_before_an_old_batch_is_sent_again(world: World) -> None:
    """Without reading back it would take the batch a second time: any sequence is right for a producer that it does not know."""
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(10), at_ms=START_MS)
    crash_after_sending(world, journal, 10)
    forget_producers(world)
    world.clock.jump(LOOK_AFTER_MS + 1)
    finish(world)
    assert world.numbers() == dict.fromkeys(range(10), 1)
    assert {one.kind for one in world.verdicts().values()} == {Kind.COMPLETE}


def test_an_old_batch_that_was_never_stored_is_sent_after_reading_back(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(10), at_ms=START_MS)

    def step(name: str) -> None:
        if name == "after reports" and agent.delivery.planned.count:
            raise Crashed

    with world.running(step) as agent, pytest.raises(Crashed):
        world.work(agent, lambda: False, "crashes")
    assert not world.numbers()
    world.clock.jump(LOOK_AFTER_MS + 1)
    finish(world)
    assert world.numbers() == dict.fromkeys(range(10), 1)
    assert {one.kind for one in world.verdicts().values()} == {Kind.COMPLETE}


def test_a_source_that_was_cut_after_its_records_were_stored_loses_nothing(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(10), at_ms=START_MS)
    crash_after_sending(world, journal, 10)
    journal.lost_from = 0
    finish(world)
    assert world.numbers() == dict.fromkeys(range(10), 1)
    assert {one.kind for one in world.verdicts().values()} == {Kind.COMPLETE}


@pytest.mark.situation(
    "agent and journals",
    "a file is cut before the planned lines are stored",
    shown="ACCOUNTED, `gone_from_source` n",
    when="with the agent's report",
    do="rotate by rename, not by truncation",
)
def test_a_source_that_was_cut_before_its_records_were_stored_is_sent_as_far_as_it_is_there(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(10), at_ms=START_MS)

    def step(name: str) -> None:
        if name == "after reports" and agent.delivery.planned.count:
            raise Crashed

    with world.running(step) as agent, pytest.raises(Crashed):
        world.work(agent, lambda: False, "crashes")
    journal.lost_from = 4
    finish(world)
    assert world.numbers() == dict.fromkeys(range(4), 1)
    (verdict,) = world.verdicts().values()
    assert (verdict.kind, verdict.losses) == (Kind.ACCOUNTED, {"gone_from_source": 6})


@pytest.mark.situation(
    "agent and journals",
    "a journal is deleted by hand",
    shown="UNKNOWN, `silent` names its run",
    when="its deadline",
    do="`retire-producer`",
)
def test_a_source_that_vanished_is_looked_for_in_the_log_and_its_windows_stay_unknown(world: World) -> None:
    """Nobody knows what else the journal held."""
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(10), at_ms=START_MS)
    crash_after_sending(world, journal, 10)
    world.group.sources.clear()
    with world.running() as agent:
        world.work(agent, lambda: not agent.store.sources(), "the source is given up")
        world.work(
            agent, lambda: not agent.audit_reports.reports_under_way and not agent.audit_reports.has_due(is_last=True), "told"
        )
    world.clock.jump(2 * WINDOW_MS)
    verdict = world.verdicts(silent_ms=DEADLINE_MS + 1)[START_MS]
    assert verdict.kind is Kind.UNKNOWN
    assert "producer:host/app/a" in verdict.silent
    told = [sent for one in world.reports() for window in one.windows for sent in window.sent]
    assert sum(stretch.count for one in told for stretch in one.acknowledged) == 10


def test_a_broker_that_lost_what_it_had_acknowledged_gets_what_follows_under_another_id(world: World) -> None:
    """A power cut took the log's tail: the next sequence number does not follow what the broker knows."""
    world.broker.topics.create("narrow", 1, {}, lambda outcome: None)
    journal = world.group.journal("a", "narrow", begins_ms=START_MS)
    journal.most_records = 5
    journal.log(*range(5), at_ms=START_MS)
    with world.running() as agent:
        world.ship_all(agent)

        def lose() -> None:
            states = world.broker.partition("narrow").log._end._producers
            (producer_id,) = [one for one, _ in states.snapshot()]
            states.restore(((producer_id, (0, ((0, 2, 0),))),))

        world.broker.on_loop(lose)
        journal.log(*range(5, 15), at_ms=START_MS)
        world.ship_all(agent)
        ids = {one.producer_ids for one in world.reports() if one.instance == "host/app/a"}
    assert world.numbers("narrow") == dict.fromkeys(range(15), 1)
    assert max(map(len, ids)) == 2


def test_a_batch_that_the_broker_finds_too_large_is_split_and_one_record_alone_is_lost_by_name(world: World) -> None:
    world.broker.topics.create("narrow", 1, {"max.message.bytes": "400"}, lambda outcome: None)
    journal = world.group.journal("a", "narrow", begins_ms=START_MS)
    journal.most_records = 100
    journal.log(*range(60), at_ms=START_MS)
    journal.items[7] = journal.items[7]._replace(body=b"7" * 1_000)  # type: ignore[union-attr]
    journal.log(60, 61, at_ms=START_MS + WINDOW_MS)
    with world.running() as agent:
        world.ship_all(agent)
        assert agent.store.totals() == {"acknowledged": 61, "dropped_too_large": 1}
    assert world.numbers("narrow") == {number: 1 for number in range(62) if number != 7}


def test_the_broker_away_nothing_more_is_read_than_the_buffer_holds(world: World) -> None:
    world.settings = replace(world.settings, buffer_bytes=2_000)
    journals = [world.group.journal(f"{at}", begins_ms=START_MS) for at in range(30)]
    for journal in journals:
        journal.log(*range(100), at_ms=START_MS)
    held: list[int] = []

    def step(name: str) -> None:
        held.append(agent.delivery.planned.held_bytes)

    with world.running(step) as agent:
        agent.delivery._sender.send = lambda due: None  # type: ignore[method-assign]
        world.work(agent, lambda: max(held, default=0) > 2_000, "the buffer is full")
        for _ in range(50):
            agent.turn()
        assert max(held) < 2_000 + 500
        assert sum(len(one.chunks) for one in agent.sources.open_sources) < 15


def test_each_source_has_its_turn(world: World) -> None:
    large, small = world.group.journal("large"), world.group.journal("small")
    large.log(*range(3_000), at_ms=START_MS)
    small.log(3_000, at_ms=START_MS)
    with world.running() as agent:
        world.work(agent, lambda: small.released == 1, "the small one is shipped")
        assert large.released < 3_000


def test_a_second_agent_on_the_same_state_is_refused(world: World) -> None:
    with world.running():
        with pytest.raises(StateRefused, match="another agent runs"):
            world.agent()


def test_a_state_of_another_version_is_refused(world: World) -> None:
    with world.running() as agent:
        agent.store._db.execute("UPDATE meta SET value = '99' WHERE name = 'version'", ())
        agent.store.commit()
    with pytest.raises(StateRefused, match="layout 99"):
        world.agent()


def test_a_file_that_is_no_state_is_refused(world: World) -> None:
    (world.folder / "state").mkdir()
    (world.folder / "state" / "agent.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StateRefused, match="not an agent's state"):
        world.agent()
