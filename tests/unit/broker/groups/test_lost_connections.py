"""Connections that break while a request is parked."""

from headrace.wire.errors import ErrorCode
from tests.unit.broker.groups.scene import Scene


def test_a_member_whose_connection_dies_while_it_waits_stays_until_its_session_ends() -> None:
    scene = Scene()
    a, b = scene.stable(2, session_ms=10_000)
    gone = scene.join(a)
    scene.cancel(gone)
    other = scene.join(b)
    assert other.answer.generation == 3, "it had asked to be in, so nobody waits for it"
    assert gone.is_parked
    back = scene.join(a)
    assert back.answer.generation == 3, "the answer that it could not hear"
    scene.sync(other.answer.leader_id, 3, {a: b"1", b: b"2"})
    assert scene.heartbeat(a, 3) is ErrorCode.NONE
    scene.pass_ms(10_000)
    assert scene.members() == []


def test_a_dead_members_session_counts_from_the_loss_of_its_connection() -> None:
    scene = Scene()
    a, b = scene.stable(2, session_ms=10_000)
    gone = scene.join(a)
    scene.pass_ms(5_000)
    scene.heartbeat(b, 2)
    scene.cancel(gone)
    scene.pass_ms(9_999)
    scene.heartbeat(b, 2)
    assert a in scene.members()
    assert scene.pass_ms(1) == [a]


def test_who_hears_the_answer_leads_rather_than_one_whose_connection_died() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    scene.cancel(scene.join(a))
    assert scene.join(b).answer.leader_id == b


def test_an_old_clients_newcomer_that_cannot_know_its_id_goes_with_its_connection() -> None:
    scene = Scene(initial_rebalance_delay_ms=500)
    gone = scene.join()
    scene.cancel(gone)
    assert (scene.members(), scene.coordinator.held_bytes) == ([], 0)


def test_a_sync_whose_connection_died_can_be_asked_again() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    scene.join(a)
    scene.join(b)
    scene.cancel(scene.sync(b, 3))
    scene.sync(a, 3, {b: b"2"})
    assert scene.sync(b, 3).answer.assignment == b"2"
