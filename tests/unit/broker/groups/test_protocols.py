"""Which of its members' protocols a group uses."""

import pytest

from headrace.broker.groups.vote import chosen
from headrace.wire.errors import ErrorCode
from tests.unit.broker.groups.scene import Scene, offers


def test_a_sync_for_another_protocol_than_the_groups_is_refused() -> None:
    scene = Scene()
    scene.join()
    assert scene.sync("m-1", 1, protocol="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.sync("m-1", 1, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.sync("m-1", 1, protocol="range", protocol_type="consumer").error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("members", "winner"),
    [
        ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
        ([["range", "sticky"], ["sticky", "range"]], "range"),
        ([["new", "range"], ["range"]], "range"),
        ([["a"], ["b"]], None),
        ([], None),
    ],
)
def test_the_protocol_that_most_members_like_best_wins_of_those_that_all_offer(
    members: list[list[str]], winner: str | None
) -> None:
    assert chosen([offers(*names) for names in members]) == winner


def test_who_has_nothing_in_common_with_the_group_stays_out_and_disturbs_nobody() -> None:
    scene = Scene()
    (a,) = scene.stable(1)
    assert scene.join(offers=offers("sticky")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.join(offers=[]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.join(protocol_type="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert scene.heartbeat(a, 1) is ErrorCode.NONE


def test_a_member_alone_may_change_to_another_protocol_altogether() -> None:
    scene = Scene()
    (a,) = scene.stable(1)
    assert scene.join(a, offers=offers("sticky")).answer.protocol == "sticky"
    assert scene.join(a, offers=offers("work"), protocol_type="connect").answer.protocol_type == "connect"


def test_members_change_over_to_a_new_protocol_one_after_the_other() -> None:
    scene = Scene()
    a, b = scene.stable(2)
    scene.join(a, offers=offers("sticky", "range"))
    first = scene.join(b)
    assert first.answer.protocol == "range"
    scene.join(b, offers=offers("sticky"))
    assert scene.join(a, offers=offers("sticky", "range")).answer.protocol == "sticky"
    assert scene.join(a, offers=offers("range")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
