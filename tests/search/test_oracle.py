"""What the oracle of the search holds for true, where that had to be decided: histories made by hand, and seeds that found it."""

import pytest

from tests.support.audit_world.producers import Run
from tests.support.audit_world.records import ACKNOWLEDGED, WINDOW_MS, Batch
from tests.support.audit_world.truth import truth_of
from tests.support.audit_world.world import World

from .audit.checks import check

WINDOW, OTHER = 0, WINDOW_MS


def killed_replay_that_strayed() -> World:
    """A replay announced the times of OTHER, stored a record of WINDOW, and died before it reported that."""
    world = World(0)
    world.partitions, world.windows, world.faults = [0], [WINDOW, OTHER], set()
    run = Run(world, "host/replay", 1, 760, between=(OTHER, OTHER + WINDOW_MS))
    world.runs = [run]
    run._report()
    batch = Batch(run, 0, WINDOW, world.new_records(1), [run._numbers(0, 1)], ACKNOWLEDGED, copies=[0])
    run.batches.append(batch)
    world.store(batch, 0, is_altered=False)
    run.is_killed = True
    return world


def test_a_replay_that_strayed_is_waited_for_where_somebody_has_read_its_record() -> None:
    world = killed_replay_that_strayed()
    world.read("live", to_end=True)
    assert truth_of(world, WINDOW).is_waiting


def test_a_replay_that_strayed_is_waited_for_where_it_said_so() -> None:
    world = killed_replay_that_strayed()
    world.losses[world.runs[0].instance, 1, WINDOW] = {}
    assert truth_of(world, WINDOW).is_waiting


def test_nobody_can_wait_for_a_record_that_strayed_expired_and_was_never_read() -> None:
    """Fault: the oracle asked the audit to wait for a run of which no word and no record speaks of the window."""
    world = killed_replay_that_strayed()
    world.live[0].begins_at = world.live[0].end
    world.read("live", to_end=True)
    truth = truth_of(world, WINDOW)
    assert (truth.is_waiting, truth.is_hidden) == (False, True)
    assert truth_of(world, OTHER).is_waiting, "the window that it announced waits whatever was read"


def test_nobody_promised_anything_for_what_was_logged_by_an_application_that_was_never_announced() -> None:
    """Two records, of which the log lost one, of a program that died before its announcement: foreign ones, as for kcat."""
    world = World(0)
    world.partitions, world.windows, world.faults = [0], [WINDOW], set()
    never_known, known = (Run(world, f"host/app/{at}", at, 700 + at) for at in (0, 1))
    world.runs = [never_known, known]
    known._report()
    for copies in ([0], []):
        batch = Batch(never_known, 0, WINDOW, world.new_records(1), [never_known._numbers(0, 1)], ACKNOWLEDGED, copies=copies)
        never_known.batches.append(batch)
        for index in copies:
            world.store(batch, index, is_altered=False)
    truth = truth_of(world, WINDOW)
    assert (truth.unaudited, truth.missing["live"], truth.doubled["live"]) == (1, 0, 0)
    assert truth.is_waiting, "for the other one, which was announced"
    never_known._report()
    truth = truth_of(world, WINDOW)
    assert (truth.unaudited, truth.doubled["live"]) == (0, 1), "announced, and no report speaks of what stands there"


@pytest.mark.parametrize("seed", [139004, 160892, 173692, 18480, 35206])
def test_a_history_that_was_judged_wrongly_once_is_judged_rightly(seed: int) -> None:
    """Faults of the oracle, which wanted a window to wait for a replay that strayed into it where its record expired unread.

    18480: it missed a record of which a second copy was damaged.
    35206: the world damaged half of a copy of a batch, which a log holds whole.
    173692: it wanted the consumer group's word on a damaged record of which no tier had a copy to tell of.
    139004: it was killed unreported. 160892: its report of it was lost, and so were the books of the audit that had read it.
    """
    check(seed)


@pytest.mark.parametrize("seed", [10443, 14450, 19091])
def test_what_expired_before_live_was_read_again_is_not_lost_there(seed: int) -> None:
    """Fault of the audit: a reading that skipped what had expired contradicted what live had held there."""
    check(seed)
