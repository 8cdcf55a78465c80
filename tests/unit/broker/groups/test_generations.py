"""From one generation of a group to the next: joins, assignments, departures, silence."""

from headrace.broker.groups.messages import Leaver, ProtocolOffer
from headrace.wire.errors import ErrorCode
from tests.unit.broker.groups.scene import Scene


def test_a_newcomer_of_today_first_gets_an_id_and_joins_with_it() -> None:
    scene = Scene()
    first = scene.join(id_first=True)
    assert (first.error, first.answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "m-1")
    second = scene.join("m-1", id_first=True)
    assert (second.error, second.answer.generation, second.answer.leader_id) == (ErrorCode.NONE, 1, "m-1")
    assert [one.member_id for one in second.answer.members] == ["m-1"]


def test_an_id_that_is_never_used_is_forgotten_with_its_group() -> None:
    scene = Scene()
    scene.join(id_first=True, session_ms=10_000)
    scene.pass_ms(9_999)
    assert len(scene.coordinator) == 1
    scene.pass_ms(1)
    assert (len(scene.coordinator), scene.coordinator.held_bytes) == (0, 0)
    assert scene.join("m-1", id_first=True).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_leader_hears_of_all_members_and_the_others_of_none() -> None:
    scene = Scene()
    first = scene.join(name="a")
    second = scene.join(name="b")
    assert second.is_parked
    assert scene.heartbeat("a-1", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = scene.join("a-1")
    assert first.answer.generation == 1
    assert (again.answer.generation, second.answer.generation) == (2, 2)
    assert [one.member_id for one in again.answer.members] == ["a-1", "b-2"]
    assert again.answer.members[1].metadata == b"for range"
    assert (list(second.answer.members), second.answer.leader_id) == ([], "a-1")


def test_shares_are_given_out_when_the_leader_brings_them_whoever_asked_first() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    scene.join(a)
    scene.join(b)
    early = scene.sync(b, 3)
    assert early.is_parked
    late = scene.sync(a, 3, {a: b"1", b: b"2", "stranger": b"3"})
    assert (late.answer.assignment, early.answer.assignment) == (b"1", b"2")
    assert scene.sync(b, 3).answer.assignment == b"2", "asked again, as after a lost answer"


def test_a_member_the_leader_forgot_has_an_empty_share() -> None:
    scene = Scene()
    joined = scene.join()
    assert scene.sync("m-1", joined.answer.generation, {}).answer.assignment == b""


def test_a_member_that_leaves_starts_a_rebalance_of_the_rest() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    assert scene.leave(b) is ErrorCode.NONE
    assert scene.heartbeat(a, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.may_commit(a, 2) is ErrorCode.NONE, "what it has done it may still commit"
    assert scene.join(a).answer.generation == 3
    assert scene.leave(b) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_that_leaves_takes_the_group_with_it() -> None:
    scene = Scene()
    (only,) = scene.stable(1)
    assert scene.leave(only) is ErrorCode.NONE
    assert (scene.state(), scene.coordinator.held_bytes) == (None, 0)
    assert scene.heartbeat(only, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session_and_a_heard_one_is_not() -> None:
    scene = Scene()
    a, b = scene.stable(2, session_ms=10_000)
    for _ in range(3):
        scene.pass_ms(3_000)
        assert scene.heartbeat(a, 2) is ErrorCode.NONE
    assert scene.pass_ms(1_000) == [b]
    assert scene.heartbeat(a, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.heartbeat(b, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.members() == [a]


def test_who_does_not_rejoin_within_the_rebalance_timeout_is_out() -> None:
    scene = Scene()
    a, b = scene.stable(2, session_ms=10_000, rebalance_ms=15_000)
    parked = scene.join(a, rebalance_ms=15_000)
    scene.pass_ms(5_000)
    assert scene.heartbeat(b, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    scene.pass_ms(9_999)
    assert parked.is_parked
    assert scene.pass_ms(1) == [b]
    assert (parked.answer.generation, scene.members()) == (3, [a])


def test_a_parked_member_is_not_silent_however_short_its_session() -> None:
    scene = Scene()
    a, b = scene.stable(2, session_ms=10_000)
    parked = scene.join(a)
    for _ in range(5):
        scene.pass_ms(9_000)
        scene.heartbeat(b, 2)
    assert parked.is_parked
    assert scene.members() == [a, b]


def test_a_leader_that_never_brings_the_shares_is_out_and_the_others_are_told() -> None:
    scene = Scene()
    a, b = scene.stable(2, session_ms=50_000, rebalance_ms=20_000)
    scene.join(a, rebalance_ms=20_000, session_ms=50_000)
    scene.join(b, rebalance_ms=20_000, session_ms=50_000)
    waits = scene.sync(b, 3)
    scene.pass_ms(19_999)
    assert waits.is_parked
    assert scene.pass_ms(1) == [a]
    assert waits.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert scene.join(b).answer.leader_id == b


def test_a_join_that_comes_twice_gets_the_present_generation_again() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    again = scene.join(b)
    assert (again.answer.generation, again.answer.leader_id, list(again.answer.members)) == (2, a, [])
    assert scene.state() == "Stable"


def test_a_leader_that_joins_again_wants_to_divide_anew() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    assert scene.join(a).is_parked
    assert scene.heartbeat(b, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_changes_what_it_offers_starts_a_rebalance() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    assert scene.join(b, offers=[ProtocolOffer("range", b"other topics")]).is_parked
    assert scene.heartbeat(a, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_older_join_of_the_same_member_is_answered_when_a_newer_one_comes() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    old = scene.join(a)
    new = scene.join(a)
    assert (old.error, new.is_parked) == (ErrorCode.REBALANCE_IN_PROGRESS, True)
    scene.join(b)
    assert new.answer.generation == 3


def test_old_generations_and_strangers_are_told_so() -> None:
    scene = Scene()
    (a,) = scene.stable(1)
    for generation in (0, 2):
        assert scene.heartbeat(a, generation) is ErrorCode.ILLEGAL_GENERATION
        assert scene.sync(a, generation).error is ErrorCode.ILLEGAL_GENERATION
        assert scene.may_commit(a, generation) is ErrorCode.ILLEGAL_GENERATION
    assert scene.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.sync("stranger", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat(a, 1, group="other") is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_without_a_generation_are_for_groups_without_members() -> None:
    scene = Scene()
    assert scene.may_commit("", -1) is ErrorCode.NONE
    (a,) = scene.stable(1)
    assert scene.may_commit("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.may_commit(a, -1) is ErrorCode.ILLEGAL_GENERATION
    assert scene.may_commit(a, 1) is ErrorCode.NONE
    scene.leave(a)
    assert scene.may_commit("", -1) is ErrorCode.NONE
    assert scene.may_commit(a, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_between_the_join_and_the_shares_is_told_to_wait() -> None:
    scene = Scene()
    scene.join()
    assert scene.may_commit("m-1", 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_keeps_a_session_alive_like_a_heartbeat() -> None:
    scene = Scene()
    (a,) = scene.stable(1, session_ms=10_000)
    scene.pass_ms(9_000)
    scene.may_commit(a, 1)
    assert scene.pass_ms(9_000) == []
    assert scene.pass_ms(1_000) == [a]


def test_members_that_start_together_make_one_generation() -> None:
    scene = Scene(initial_rebalance_delay_ms=500)
    first = scene.join()
    scene.pass_ms(400)
    second = scene.join()
    scene.pass_ms(100)
    assert first.is_parked, "the second came meanwhile: more may come"
    scene.pass_ms(499)
    assert first.is_parked
    scene.pass_ms(1)
    assert (first.answer.generation, second.answer.generation) == (1, 1)
    assert len(first.answer.members) == 2


def test_gathering_ends_with_the_rebalance_timeout_however_many_come() -> None:
    scene = Scene(initial_rebalance_delay_ms=500)
    first = scene.join(rebalance_ms=2_000)
    for _ in range(4):
        scene.pass_ms(499)
        scene.join()
        assert first.is_parked
    scene.pass_ms(4)
    assert len(first.answer.members) == 5


def test_a_member_that_leaves_while_the_group_gathers_is_answered() -> None:
    scene = Scene(initial_rebalance_delay_ms=500)
    first = scene.join(name="a")
    second = scene.join(name="b")
    scene.leave("a-1")
    assert first.error is ErrorCode.UNKNOWN_MEMBER_ID
    scene.pass_ms(500)
    scene.pass_ms(500)
    assert [one.member_id for one in second.answer.members] == ["b-2"]


def test_groups_that_another_broker_takes_over_are_forgotten_and_who_waits_is_told() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    scene.join(group="ours")
    waits = scene.join(a)
    assert scene.coordinator.hand_over(lambda group: group == "ours") == ["g"]
    scene.deliver()
    assert waits.error is ErrorCode.NOT_COORDINATOR
    assert scene.heartbeat(b, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.members("ours") == ["m-3"]


def test_groups_that_lost_their_members_are_told_once_and_those_that_have_some_again_are_not() -> None:
    scene = Scene(groups=3)
    for group in ("left", "silent", "back", "ids only"):
        if group == "ids only":
            assert scene.join(group=group, id_first=True).error is ErrorCode.MEMBER_ID_REQUIRED
            scene.pass_ms(10_001)
            continue
        member_id = scene.join(group=group).answer.member_id
        if group == "silent":
            scene.pass_ms(10_001)
        else:
            scene.leave(member_id, group=group)
    scene.join(group="back")
    assert scene.coordinator.take_deserted() == {"left", "silent"}
    assert scene.coordinator.take_deserted() == frozenset()
    scene.pass_ms(10_001)
    assert scene.coordinator.take_deserted() == {"back"}


def test_members_that_leave_in_one_request_are_gone_before_the_others_go_on() -> None:
    """Before, members were removed one by one: the last one entered a generation and left it within one request."""
    scene = Scene()
    a, b, c = scene.stable(3)
    late, *again = scene.join(name="late"), scene.join(b), scene.join(c)
    assert all(asked.is_parked for asked in [late, *again])
    assert scene.leave_all([Leaver(a), Leaver(c), Leaver(c)]) == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert again[1].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.member_id for one in again[0].answer.members] == [b, late.answer.member_id]


def test_a_first_generation_without_a_delay_does_not_wait_for_who_only_has_an_id() -> None:
    """Before, the group waited until that session ended, which is far too long."""
    scene = Scene()
    assert scene.join(id_first=True).error is ErrorCode.MEMBER_ID_REQUIRED
    came = scene.join(name="came")
    assert came.error is ErrorCode.NONE
    assert [one.member_id for one in came.answer.members] == [came.answer.member_id]


def test_a_join_that_changes_nothing_is_a_sign_of_life() -> None:
    scene = Scene()
    a, b = scene.stable(2, session_ms=10_000)
    generation = 2
    for _ in range(3):
        scene.pass_ms(6_000)
        assert scene.heartbeat(a, generation) is ErrorCode.NONE
        assert scene.join(b, session_ms=10_000).answer.generation == generation
    assert scene.heartbeat(b, generation) is ErrorCode.NONE
