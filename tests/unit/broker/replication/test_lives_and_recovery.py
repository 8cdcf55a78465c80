"""Lives, cut targets, recovery plans and suspicion: the small decisions of replication, case by case."""

import pytest

from headrace.broker.replication import lives, recovery
from headrace.broker.replication.facts import LogFacts
from headrace.broker.replication.lives import FolderNote, Lives
from headrace.broker.replication.state import EpochStart, Member, State, cut_epochs, cut_target, end_epoch, with_epoch
from headrace.broker.replication.suspicion import Signs, may_take_over

HELD = Lives(memory="memory:a", disk="disk:a")


def note(*, boot_id: str = "boot 1", start_number: int = 4, clean: bool = False, failed: bool = False) -> FolderNote:
    return FolderNote(lives=HELD, boot_id=boot_id, start_number=start_number, was_stopped_cleanly=clean, has_failed_flush=failed)


@pytest.mark.parametrize(
    ("of", "keeps_memory", "keeps_disk"),
    [
        (note(), True, True),
        (note(boot_id="boot 0"), False, True),
        (note(boot_id="boot 0", clean=True), True, True),
        (note(failed=True), False, False),
        (note(start_number=3), False, False),
        (None, False, False),
    ],
    ids=["killed", "power cut", "stopped, then another boot", "failed flush", "older copy of the folder", "empty folder"],
)
def test_a_folder_keeps_its_lives_when_it_has_lost_nothing(of: FolderNote | None, keeps_memory: bool, keeps_disk: bool) -> None:
    found = lives.at_start(of, boot_id="boot 1", start_number=5, known_start_number=4, token="b")
    assert (found.memory == HELD.memory, found.disk == HELD.disk) == (keeps_memory, keeps_disk)


def epochs(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(leader_epoch=epoch, start_offset=start) for epoch, start in pairs)


def test_a_log_is_cut_to_the_least_start_of_the_epochs_after_its_own() -> None:
    own = epochs((1, 0), (3, 50))
    assert cut_target(own, 80, epochs((1, 0), (3, 50), (4, 90))) == 80
    assert cut_target(own, 80, epochs((1, 0), (3, 50), (4, 60))) == 60
    assert cut_target(own, 80, epochs((1, 0), (4, 60), (5, 40))) == 40
    assert cut_target((), 0, epochs((1, 0))) == 0


def test_the_list_keeps_no_epoch_without_a_batch() -> None:
    found = with_epoch(epochs((1, 0), (2, 50), (3, 60)), 4, 50)
    assert found == epochs((1, 0), (4, 50))
    assert end_epoch(found, 50) == 1
    assert end_epoch(found, 51) == 4
    assert cut_epochs(found, 50) == epochs((1, 0))


def candidate(
    broker_id: int, end: int, epoch: int, *, start: int = 0, damaged: tuple[tuple[int, int], ...] = ()
) -> recovery.Candidate:
    log = LogFacts(end_offset=end, log_start_offset=start, epochs=epochs((epoch, 0)))
    return recovery.Candidate(broker_id=broker_id, lives=Lives(memory="m", disk="d"), log=log, damaged=damaged)


def test_the_newest_epoch_goes_on_then_the_longest_undamaged_log() -> None:
    node = State(members=(Member(broker_id=1, life="memory:gone"),), replicas=(1, 2, 3))
    plan = recovery.plan(node, [candidate(1, 900, 4), candidate(2, 300, 5), candidate(3, 350, 5, damaged=((0, 100),))])
    assert plan.chosen == 2
    assert plan.start_offset == 900 + recovery.UNKNOWN_BYTES
    assert plan.lost[3] == ((0, 100), (350, plan.start_offset))


def test_what_one_replica_knows_as_deleted_stays_deleted() -> None:
    node = State(members=(Member(broker_id=1, life="memory:gone"),), replicas=(1, 2, 3))
    plan = recovery.plan(node, [candidate(1, 900, 4, start=300), candidate(2, 800, 5)])
    assert (plan.chosen, plan.log_start_offset) == (2, 300)


def test_a_recovery_waits_until_each_member_was_heard() -> None:
    node = State(members=(Member(broker_id=1, life="memory:x"), Member(broker_id=2, life="d")))
    assert not recovery.is_due(node, [candidate(1, 10, 1)]), "2 was not heard"
    assert not recovery.is_due(node, [candidate(1, 10, 1), candidate(2, 10, 1)]), "2 has its life"
    gone = State(members=(Member(broker_id=1, life="memory:x"),))
    assert recovery.is_due(gone, [candidate(1, 10, 1)])
    with pytest.raises(ValueError, match="start its brokers"):
        recovery.plan(gone, [])


@pytest.mark.parametrize(
    ("answers", "refuses", "registered", "acted_on", "may"),
    [
        (True, True, False, 0, False),
        (False, False, True, 0, False),
        (False, True, True, 0, True),
        (False, True, True, 1, False),
        (False, False, False, 3, True),
    ],
)
def test_silence_alone_is_not_enough_to_take_over(
    answers: bool, refuses: bool, registered: bool, acted_on: int, may: bool
) -> None:
    signs = Signs(answers_fetches=answers, is_port_refusing=refuses, is_registered=registered, refusals_acted_on=acted_on)
    assert may_take_over(signs) is may
