"""A node that ZooKeeper lost: who continues, and when nothing that was acknowledged can be missing."""

from dataclasses import replace

import pytest

from headrace.broker.replication import restoring
from headrace.broker.replication.events import Configured, LogChanged, NodeRead, Recover, SwapAnswered, Tick
from headrace.broker.replication.facts import LogFacts
from headrace.broker.replication.lives import Lives
from headrace.broker.replication.model import is_older, step
from headrace.broker.replication.orders import AskSwap, Note, Order
from headrace.broker.replication.recovery import LATER, UNKNOWN_BYTES, Candidate
from headrace.broker.replication.replica import Following, Leading, Noted, Replica, Stopped, TakingOver, Waiting
from headrace.broker.replication.state import EpochStart, Member, State
from headrace.broker.replication.swaps import Answer

MEMBERS = tuple(Member(broker_id=one, life=f"m{one}") for one in (1, 2))
NOTED = Noted(version=9, leader_epoch=4, members=MEMBERS, went_back=True)
OF_ALL = replace(NOTED, members=(*MEMBERS, Member(broker_id=3, life="m3")))
NOTHING = Noted(version=0)
MARKER = State(replicas=(1, 2, 3), is_restored=True)
OLDER = State(leader=1, start_number=1, leader_epoch=2, members=MEMBERS, replicas=(1, 2, 3), version=5)


def facts(end: int, epoch: int = 4, **others: object) -> LogFacts:
    epochs = (EpochStart(leader_epoch=epoch, start_offset=0),)
    return LogFacts(end_offset=end, epochs=epochs, **others)  # type: ignore[arg-type]


def candidate(broker_id: int, end: int, *, noted: Noted = NOTED, life: str | None = None, epoch: int = 4) -> Candidate:
    lives = Lives(memory=f"m{broker_id}" if life is None else life, disk="d")
    return Candidate(broker_id=broker_id, lives=lives, log=facts(end, epoch), noted=noted, min_insync_replicas=2)


EMPTY = candidate(1, 0, noted=NOTHING, life="new")
THREE = (candidate(1, 70), candidate(2, 90), candidate(3, 80))


@pytest.mark.parametrize("node", [MARKER, OLDER])
def test_with_every_replica_there_and_a_member_that_kept_its_life_nothing_is_lost(node: State) -> None:
    assert restoring.is_due(node, THREE)
    plan = restoring.plan(node, THREE)
    assert (plan.doubt, plan.chosen, plan.start_offset) == (None, 2, 90)
    assert plan.lost == {1: ((70, 90),), 2: (), 3: ((80, 90),)}
    assert plan.base == NOTED.version + LATER
    assert plan.leader_epoch == NOTED.leader_epoch + LATER


def test_an_empty_disk_beside_a_whole_member_loses_nothing() -> None:
    plan = restoring.plan(MARKER, (EMPTY, candidate(2, 90, noted=OF_ALL), candidate(3, 80, noted=OF_ALL)))
    assert (plan.doubt, plan.chosen) == (None, 2)


@pytest.mark.parametrize(
    "candidates",
    [
        pytest.param((EMPTY, candidate(2, 0, noted=NOTHING, life="new"), candidate(3, 80, noted=OF_ALL)), id="two empty disks"),
        pytest.param(
            (EMPTY, candidate(2, 60, noted=OF_ALL, life="new"), candidate(3, 80, noted=OF_ALL)), id="a disk and a power"
        ),
        pytest.param((EMPTY, candidate(2, 90), candidate(3, 80)), id="a disk, and a replica that no noted set has"),
        pytest.param(
            [
                replace(one, min_insync_replicas=1)
                for one in (EMPTY, candidate(2, 90, noted=OF_ALL), candidate(3, 80, noted=OF_ALL))
            ],
            id="one member was enough",
        ),
    ],
)
def test_replicas_that_lost_something_may_have_been_the_last_set_of_which_no_other_knows(candidates: list[Candidate]) -> None:
    """A leader notes a smaller set before it acknowledges by it, the others later. Without its note, theirs names itself."""
    plan = restoring.plan(MARKER, candidates)
    assert "without the others" in str(plan.doubt)
    assert plan.start_offset > UNKNOWN_BYTES


def test_of_equal_logs_the_first_in_the_list_of_replicas_continues() -> None:
    node = replace(MARKER, replicas=(3, 1, 2))
    assert restoring.plan(node, [candidate(one, 90) for one in (1, 2, 3)]).chosen == 3


def test_the_newest_epoch_comes_before_the_longest_log() -> None:
    plan = restoring.plan(MARKER, (candidate(1, 900, epoch=3), candidate(2, 90), candidate(3, 80)))
    assert (plan.chosen, plan.doubt) == (2, None)


UNKNOWN_SET = replace(NOTED, members=())
OF_A_BROKER_THAT_MOVED_AWAY = replace(NOTED, members=(*MEMBERS, Member(broker_id=4, life="m4")))
FOLLOWED = replace(NOTED, version=5, leader_epoch=2, went_back=False)


@pytest.mark.parametrize(
    ("node", "candidates", "why"),
    [
        pytest.param(MARKER, THREE[:2], "what broker 3 holds is not known", id="a replica is missing"),
        pytest.param(
            MARKER,
            (*THREE[:2], candidate(3, 80, noted=OF_A_BROKER_THAT_MOVED_AWAY)),
            "what broker 4 holds is not known",
            id="a note names a broker that the topic does not",
        ),
        pytest.param(
            MARKER, [candidate(one, 90, noted=UNKNOWN_SET) for one in (1, 2, 3)], "an earlier release", id="no set is noted"
        ),
        pytest.param(MARKER, [candidate(one, 90, life="new") for one in (1, 2, 3)], "none has kept", id="every life is another"),
        pytest.param(
            OLDER, (*THREE[:2], candidate(3, 80, noted=FOLLOWED)), "broker 3 obeyed the older node", id="a replica obeyed it"
        ),
    ],
)
def test_what_may_be_lost_is_named_and_the_next_batch_goes_behind_every_offset_that_was_used(
    node: State, candidates: list[Candidate], why: str
) -> None:
    plan = restoring.plan(node, candidates)
    assert plan.doubt is not None
    assert why in plan.doubt
    assert plan.start_offset == 90 + UNKNOWN_BYTES


def test_a_damaged_log_is_doubtful_and_an_equal_one_without_damage_comes_first() -> None:
    damaged = replace(candidate(1, 90), damaged=((3, 5),), log=facts(90, is_damaged=True))
    assert restoring.plan(MARKER, (damaged, candidate(2, 90), candidate(3, 80))).chosen == 2
    plan = restoring.plan(MARKER, (damaged, candidate(2, 80), candidate(3, 80)))
    assert (plan.chosen, "is damaged" in str(plan.doubt)) == (1, True)


def test_replicas_that_noted_what_zookeeper_forgot_come_before_those_that_obeyed_the_older_node() -> None:
    plan = restoring.plan(OLDER, (candidate(1, 50), candidate(2, 60), candidate(3, 900, noted=FOLLOWED, epoch=9)))
    assert plan.chosen == 2


def test_a_partition_that_was_never_led_loses_nothing() -> None:
    plan = restoring.plan(MARKER, [candidate(one, 0, noted=NOTHING) for one in (1, 2, 3)])
    assert (plan.doubt, plan.start_offset) == (None, 0)


def test_a_replica_that_has_read_a_newer_node_a_moment_later_makes_no_recovery_due() -> None:
    later = replace(NOTED, went_back=False)
    assert not restoring.is_due(OLDER, [candidate(1, 90, noted=later)])


def test_no_plan_without_an_answer() -> None:
    with pytest.raises(ValueError, match="no replica"):
        restoring.plan(MARKER, ())


# -- the machine -----------------------------------------------------------------------------------


def stopped(broker_id: int, end: int = 90) -> Replica:
    """Return a replica that was started after the loss and has read the node."""
    replica = Replica(
        topic_id="t",
        broker_id=broker_id,
        start_number=1,
        lives=Lives(memory=f"m{broker_id}", disk="d"),
        log=facts(end),
        noted=replace(NOTED, went_back=False),
        role=Waiting(),
    )
    replica, todo = step(replica, NodeRead(state=MARKER, is_synced=True))
    assert Note(version=9, leader_epoch=4, members=MEMBERS, went_back=True) in todo
    assert isinstance(replica.role, Stopped)
    assert "`headrace partition recover TOPIC PARTITION`" in replica.role.reason
    return replica


def recovered(replica: Replica, start_offset: int = 90) -> tuple[Replica, AskSwap]:
    event = Recover(start_offset=start_offset, restored=MARKER, base=LATER + 9, leader_epoch=LATER + 4)
    replica, todo = step(replica, event)
    (ask,) = [one for one in todo if isinstance(one, AskSwap)]
    return replica, ask


def test_the_chosen_replica_leads_and_the_others_follow_by_a_node_that_is_later_than_every_note() -> None:
    chosen, ask = recovered(stopped(2))
    wanted = ask.swap.wanted
    assert (ask.swap.version, wanted.version, wanted.base) == (0, LATER + 10, LATER + 9)
    assert (wanted.leader, wanted.leader_epoch, wanted.is_restored, wanted.lost) == (2, LATER + 4, False, ())
    assert wanted.epochs == (EpochStart(leader_epoch=4, start_offset=0), EpochStart(leader_epoch=LATER + 4, start_offset=90))
    chosen, _ = step(chosen, SwapAnswered(swap=ask.swap, answer=Answer.LANDED))
    assert isinstance(chosen.role, Leading)
    assert not chosen.noted.went_back
    for other in (stopped(1, 70), stopped(3, 95)):
        follower, _ = step(other, NodeRead(state=wanted, is_synced=True))
        assert isinstance(follower.role, Following)
        assert not is_older(wanted, follower.noted)
        assert follower.is_cutting == (other.log.end_offset > 90), "what the chosen log does not have is cut"


def test_the_next_swap_is_made_on_the_version_that_zookeeper_counts() -> None:
    chosen, ask = recovered(stopped(2))
    chosen, _ = step(chosen, SwapAnswered(swap=ask.swap, answer=Answer.LANDED))
    chosen, todo = step(chosen, Configured(min_insync_replicas=1, acks_on_disk=True))
    chosen, more = step(replace(chosen, log=replace(chosen.log, flushed_offset=90)), Tick(now_ms=1))
    (ask,) = [one for one in (*todo, *more) if isinstance(one, AskSwap)]
    assert ask.swap.version - ask.swap.base == 1
    assert ask.swap.wanted.version == ask.swap.version + 1


def test_what_may_be_lost_is_given_up_and_jumped() -> None:
    _, ask = recovered(stopped(2), start_offset=500)
    assert ask.swap.wanted.lost == ((90, 500),)


@pytest.mark.parametrize("answer", [Answer.PASSED, Answer.LOST])
def test_a_recovery_that_did_not_land_leaves_the_replica_as_it_was(answer: Answer) -> None:
    chosen, ask = recovered(stopped(2))
    chosen, _ = step(chosen, NodeRead(state=MARKER, is_synced=True))
    assert isinstance(chosen.role, TakingOver), "an old node that is read meanwhile decides nothing"
    chosen, _ = step(chosen, SwapAnswered(swap=ask.swap, answer=answer))
    if answer is Answer.LOST:
        chosen, todo = step(chosen, Tick(now_ms=1))
        assert AskSwap(swap=ask.swap) in todo
        chosen, _ = step(chosen, SwapAnswered(swap=ask.swap, answer=Answer.PASSED))
    chosen, _ = step(chosen, NodeRead(state=MARKER, is_synced=True))
    assert isinstance(chosen.role, Stopped)


def test_a_stopped_replica_obeys_neither_the_marker_nor_what_the_older_tree_became() -> None:
    orders: list[Order] = []
    replica = stopped(2)
    for later in (MARKER, replace(OLDER, version=50, leader_epoch=60), replace(OLDER, version=50, base=9, leader_epoch=60)):
        replica, todo = step(replica, NodeRead(state=later, is_synced=True))
        orders += todo
        replica, todo = step(replica, LogChanged(log=replica.log))
        orders += todo
    assert isinstance(replica.role, Stopped)
    assert orders == []
