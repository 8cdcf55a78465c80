"""Sources through a real broker to the audit's verdict."""

import json

from headrace.agent.source import Chunk, Position
from headrace.audit.model.facts import Kind
from headrace.audit.model.windows import WINDOW_MS
from headrace.schema_registry.errors import RegistryError

from .world import START_MS, World


def test_what_stands_in_a_journal_is_shipped_and_its_windows_are_complete_once_they_are_over(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(100), at_ms=START_MS)
    journal.log(*range(100, 130), at_ms=START_MS, key=b"one")
    with world.running() as agent:
        world.ship_all(agent)
        assert world.numbers() == dict.fromkeys(range(130), 1)
        assert world.verdicts()[START_MS].kind is Kind.OPEN
        world.clock.jump(WINDOW_MS + 120_000)
        world.work(agent, lambda: world.verdicts()[START_MS].kind is Kind.COMPLETE, "the window is complete")
        assert not journal.is_removed


def test_a_journal_that_ended_is_closed_and_removed_and_forgotten(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(25), at_ms=START_MS)
    journal.is_over = True
    with world.running() as agent:
        world.work(agent, lambda: journal.is_removed, "the journal is removed")
        world.work(agent, lambda: not agent.store.sources(), "the journal is forgotten")
        agent.turn()
        assert [run.facts.instance for run in agent.store.runs()] == ["host/agent/one"]
        assert not agent.store.producer_ids(2)
    assert world.numbers() == dict.fromkeys(range(25), 1)
    (last,) = [one for one in world.reports() if one.state == "closed"]
    assert last.instance == "host/app/a"


def test_order_is_kept_within_a_key_and_a_window(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.most_records = 7
    for number in range(60):
        journal.log(number, at_ms=START_MS, key=b"%d" % (number % 3))
    with world.running() as agent:
        world.ship_all(agent)
    found = [int(value[5:]) for _, value in world.read("clicks")]
    assert sorted(found) == list(range(60))
    for key in range(3):
        assert [one for one in found if one % 3 == key] == list(range(key, 60, 3))


def test_what_is_no_event_goes_to_quarantine_and_counts_in_its_window(world: World) -> None:
    journal = world.group.journal("a", begins_ms=0)
    journal.log_nonsense("one", "two")
    journal.log(1, at_ms=1_000)
    journal.is_over = True
    with world.running() as agent:
        world.work(agent, lambda: journal.is_removed, "the journal is removed")
    assert len(world.read("clicks.quarantine")) == 2
    losses = [window.losses for one in world.reports() for window in one.windows if window.losses]
    assert losses[-1] == {"quarantined": 2}
    world.clock.jump(WINDOW_MS)


def test_records_of_a_refused_schema_go_to_quarantine_and_others_go_on(world: World) -> None:
    refused, other = world.group.journal("a"), world.group.journal("b", "views")
    refused.log(1, 2, at_ms=START_MS)
    other.log(3, at_ms=START_MS)

    class Refused(RegistryError):
        def __init__(self) -> None:
            Exception.__init__(self, "not compatible with version 1")

    world.registry.refuses["clicks-value"] = Refused()
    with world.running() as agent:
        world.ship_all(agent)
        assert agent.store.totals()["quarantined"] == 2
    assert world.numbers("views") == {3: 1}
    assert not world.numbers()
    first, second = (json.loads(value) for _, value in world.read("clicks.quarantine"))
    assert (first["code"], first["reason"], first["stage"]) == ("schema_refused", "not compatible with version 1", "agent")
    assert first["origin"] != second["origin"]


def test_what_the_application_dropped_is_told_as_a_total_and_once(world: World) -> None:
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(1, at_ms=START_MS)
    journal.dropped[START_MS, "dropped_buffer_full"] = 3
    with world.running() as agent:
        world.ship_all(agent)
    journal.dropped[START_MS, "dropped_buffer_full"] = 5
    journal.is_over = True
    with world.running() as agent:
        world.work(agent, lambda: journal.is_removed, "the journal is removed")
    told = [window.losses["dropped_buffer_full"] for one in world.reports() for window in one.windows if window.losses]
    assert told[0] == 3
    assert told[-1] == 5
    assert world.verdicts()[START_MS].losses == {"dropped_buffer_full": 5}


def test_a_source_that_is_never_read_dry_is_sealed_all_the_same(world: World) -> None:
    """A busy application's journal always has something more: its windows must not stay open for it."""
    journal = world.group.journal("a", begins_ms=START_MS)
    journal.log(*range(50), at_ms=START_MS)
    journal.log(50, at_ms=START_MS + 2 * WINDOW_MS)
    world.clock.jump(2 * WINDOW_MS)
    read = journal.read

    def read_while_it_is_written(position: Position, most_bytes: int) -> Chunk | None:
        journal.log(len(journal.items), at_ms=world.clock.now_ms())
        return read(position, most_bytes)

    journal.read = read_while_it_is_written  # type: ignore[method-assign]
    with world.running() as agent:

        def is_sealed() -> bool:
            return any((one.moved_past_ms or 0) >= START_MS + WINDOW_MS for one in world.reports() if one.windows)

        world.work(agent, is_sealed, "the first window is sealed")


def test_one_source_that_cannot_be_read_stops_no_other(world: World) -> None:
    bad, good = world.group.journal("bad"), world.group.journal("good")
    bad.log(1, at_ms=START_MS)
    good.log(2, at_ms=START_MS)
    bad.refuses = True
    with world.running() as agent:
        world.work(agent, lambda: good.released == 1, "the good one is shipped")
        assert [one.trouble for one in agent.sources.open_sources if one.row.name.endswith("bad")] == [
            "journals/bad cannot be read"
        ]
        bad.refuses = False
        world.ship_all(agent)
