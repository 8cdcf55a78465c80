"""The bounds of one group and of all groups together."""

import pytest

from headrace.broker.groups.messages import ProtocolOffer
from headrace.wire.errors import ErrorCode
from tests.unit.broker.groups.scene import RANGE, Scene, offers


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001, -1])
def test_a_session_timeout_out_of_bounds_is_refused(session_ms: int) -> None:
    assert Scene().join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_full_group_takes_no_more_members_but_lets_its_own_rejoin() -> None:
    scene = Scene(members_per_group=2)
    a, _ = scene.stable(2)
    assert scene.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.join(id_first=True).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.join(a).is_parked


def test_ids_that_were_given_out_count_as_members_of_a_full_group() -> None:
    scene = Scene(members_per_group=2)
    for _ in range(2):
        scene.join(id_first=True)
    assert scene.join(id_first=True).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_there_are_no_more_groups_than_allowed_and_a_deserted_one_makes_room() -> None:
    scene = Scene(groups=2)
    scene.join(group="a")
    scene.join(group="b")
    assert scene.join(group="c").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.leave("m-1", group="a") is ErrorCode.NONE
    assert scene.join(group="c").error is ErrorCode.NONE


def test_members_metadata_is_bounded_over_all_groups() -> None:
    scene = Scene(bytes=100_000)
    fat = [ProtocolOffer("range", b"x" * 40_000)]
    assert scene.join(group="a", offers=fat).error is ErrorCode.NONE
    assert scene.join(group="b", offers=fat).error is ErrorCode.NONE
    assert scene.join(group="c", offers=fat).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    scene.leave("m-1", group="a")
    assert scene.join(group="c", offers=fat).error is ErrorCode.NONE


def test_ids_that_are_given_out_count_towards_the_memory_of_all_groups() -> None:
    scene = Scene(bytes=100_000, members_per_group=100_000)
    asked = [scene.join(id_first=True).error for _ in range(1_000)]
    assert asked[0] is ErrorCode.MEMBER_ID_REQUIRED
    assert asked[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert scene.coordinator.held_bytes <= 101_000


def test_shares_that_do_not_fit_are_refused_to_all_and_the_group_goes_on() -> None:
    scene = Scene(bytes=100_000)
    a, b = scene.stable(2)
    scene.join(a)
    scene.join(b)
    waits = scene.sync(b, 3)
    leads = scene.sync(a, 3, {a: b"x" * 200_000})
    assert (leads.error, waits.error) == (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert scene.heartbeat(b, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_with_more_protocols_than_anybody_has_is_refused() -> None:
    many = [ProtocolOffer(str(number), b"") for number in range(101)]
    assert Scene().join(offers=many).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert Scene().join(offers=[*many[:99], *RANGE]).error is ErrorCode.NONE


def test_a_name_too_long_for_an_older_clients_answer_is_refused_to_whoever_brings_it() -> None:
    long = "x" * 1_001
    assert Scene().join(offers=offers(long)).error is ErrorCode.INVALID_REQUEST
    assert Scene().join(instance=long).error is ErrorCode.INVALID_REQUEST
    assert Scene().join(protocol_type=long).error is ErrorCode.INVALID_REQUEST
    assert Scene().join(instance=long[1:], offers=offers(long[1:])).error is ErrorCode.NONE


def test_of_groups_that_come_and_go_as_many_are_remembered_as_may_be_there_at_once() -> None:
    scene = Scene(groups=5)
    for number in range(100):
        scene.leave(scene.join(group=f"g{number}").answer.member_id, group=f"g{number}")
    assert scene.coordinator.take_deserted() == {f"g{number}" for number in range(5)}
