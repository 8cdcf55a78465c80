"""Members that outlive their process: a new process with the same instance id rejoins without a rebalance (KIP-345)."""

from headrace.broker.groups.messages import ProtocolOffer
from headrace.broker.groups.subscription import subscription
from headrace.wire.errors import ErrorCode
from tests.unit.broker.groups.scene import Scene


def test_a_static_member_that_returns_keeps_its_share_and_nobody_else_notices() -> None:
    scene = Scene()
    a, b = scene.stable(2, static=True)
    back = scene.join(instance="i1")
    assert (back.answer.generation, back.answer.leader_id, list(back.answer.members)) == (2, a, [])
    assert back.answer.member_id not in (a, b)
    assert scene.sync(back.answer.member_id, 2, instance_id="i1").answer.assignment == b.encode()
    assert scene.heartbeat(a, 2, instance="i0") is ErrorCode.NONE


def test_a_static_leader_that_returns_is_not_told_to_lead() -> None:
    scene = Scene()
    a, _ = scene.stable(2, static=True)
    back = scene.join(instance="i0")
    assert back.answer.leader_id == a != back.answer.member_id
    assert list(back.answer.members) == []
    assert scene.sync(back.answer.member_id, 2).answer.assignment == a.encode()
    assert scene.state() == "Stable"


def test_the_process_that_was_replaced_is_fenced_whatever_it_asks() -> None:
    scene = Scene()
    _, b = scene.stable(2, static=True)
    scene.join(instance="i1")
    assert scene.heartbeat(b, 2, instance="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert scene.may_commit(b, 2, instance="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert scene.sync(b, 2, instance_id="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert scene.join(b, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert scene.leave(b, instance="i1") is ErrorCode.FENCED_INSTANCE_ID


def test_a_parked_join_of_the_process_that_was_replaced_is_answered_with_the_fence() -> None:
    scene = Scene()
    a, b = scene.stable(2, static=True)
    old = scene.join(a, instance="i0")
    new = scene.join(instance="i0")
    assert (old.error, new.is_parked) == (ErrorCode.FENCED_INSTANCE_ID, True)
    scene.join(b, instance="i1")
    assert new.answer.generation == 3


def test_an_instance_nobody_knows_with_a_member_id_is_unknown() -> None:
    scene = Scene()
    (a,) = scene.stable(1)
    assert scene.heartbeat(a, 1, instance="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.join(a, instance="nobody").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_absent_static_member_is_kept_through_a_rebalance_until_its_session_ends() -> None:
    scene = Scene()
    a, b = scene.stable(2, static=True, session_ms=100_000, rebalance_ms=10_000)
    parked = scene.join(a, instance="i0", session_ms=100_000, rebalance_ms=10_000)
    scene.pass_ms(10_000)
    assert [one.member_id for one in parked.answer.members] == [a, b]
    assert scene.members() == [a, b]
    scene.sync(a, 3, {a: b"1", b: b"2"})
    scene.pass_ms(50_000)
    scene.heartbeat(a, 3)
    assert b in scene.members(), "it is not asked for its sync, as it was not told of the generation"
    assert scene.pass_ms(40_000) == [b]


def test_when_all_static_members_are_away_their_sessions_decide() -> None:
    scene = Scene()
    a, _ = scene.stable(2, static=True, session_ms=100_000, rebalance_ms=10_000)
    scene.leave(a, instance="i0")
    scene.pass_ms(10_000)
    assert scene.state() == "PreparingRebalance"
    scene.pass_ms(90_000)
    assert scene.state() is None


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    scene = Scene()
    a, b = scene.stable(2, static=True)
    assert scene.leave("", instance="i1") is ErrorCode.NONE
    assert scene.members() == [a]
    assert scene.leave("", instance="i1") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.heartbeat(b, 2, instance="i1") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_returns_to_a_full_group_has_its_place() -> None:
    scene = Scene(members_per_group=2)
    scene.stable(2, static=True)
    assert scene.join(instance="i1").error is ErrorCode.NONE
    assert scene.join(instance="i2").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_that_returns_with_other_topics_starts_a_rebalance() -> None:
    def reads(topic: str, owned: bytes = b"") -> list[ProtocolOffer]:
        return [ProtocolOffer("range", subscription([topic]) + owned)]

    scene = Scene()
    scene.join(instance="i0", offers=reads("clicks", b"owned partitions"))
    scene.sync("i0-1", 1, {})
    back = scene.join(instance="i0", offers=reads("clicks"))
    assert back.answer.generation == 1, "what it owned differs by nature"
    assert scene.join(instance="i0", offers=reads("orders")).answer.generation == 2


def test_a_static_member_that_returns_with_a_protocol_that_changes_the_vote_starts_a_rebalance() -> None:
    scene = Scene()
    scene.join(instance="i0", offers=[ProtocolOffer("range", b""), ProtocolOffer("sticky", b"")])
    scene.sync("i0-1", 1, {})
    back = scene.join(instance="i0", offers=[ProtocolOffer("sticky", b"")])
    assert (back.answer.generation, back.answer.protocol) == (2, "sticky")


def test_a_static_member_needs_no_id_first_and_survives_the_loss_of_its_first_answer() -> None:
    scene = Scene(initial_rebalance_delay_ms=500)
    first = scene.join(instance="i0", id_first=True)
    assert first.is_parked
    scene.cancel(first)
    again = scene.join(instance="i0", id_first=True)
    scene.pass_ms(500)
    assert (again.answer.generation, scene.members()) == (1, [again.answer.member_id])


def test_a_newcomers_id_does_not_take_an_instance_from_its_holder() -> None:
    scene = Scene()
    scene.stable(1, static=True)
    newcomer = scene.join(id_first=True).answer.member_id
    assert scene.join(newcomer, instance="i0", id_first=True).error is ErrorCode.FENCED_INSTANCE_ID
