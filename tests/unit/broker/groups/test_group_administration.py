"""Listing, describing and deleting groups, over real sockets. ZooKeeper is simulated."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.broker.groups.subscription import assignment, subscribed_topics
from headrace.broker.handlers.group_id import MOST_NAMED
from headrace.coordination.committed_offset import CommittedOffset
from headrace.coordination.group_directory import PaperMember
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker
from tests.unit.broker.groups.group_requests import commit, describe, heartbeat, join, join_message, listed, sync, sync_message

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2}, settings=SETTINGS) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def test_a_group_is_described_with_its_members_while_it_stands(client: RawClient) -> None:
    joined = join(client, instance="i1")
    (before,) = describe(client, "g")
    assert (before.group_state, before.protocol_data) == ("CompletingRebalance", "")
    assert before.members[0].member_metadata == b""
    fields = sync_message(joined, {joined.member_id: b"share"}) | {"group_instance_id": "i1"}
    assert client.ask(14, 5, fields).error_code == 0
    (group,) = describe(client, "g")
    (member,) = group.members
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert (member.client_id, member.client_host, member.group_instance_id) == ("raw", "127.0.0.1", "i1")
    assert (member.member_id, member.member_assignment) == (joined.member_id, b"share")
    assert subscribed_topics(member.member_metadata) == {"clicks"}
    assert listed(client) == {"g": "Stable"}
    assert listed(client, "empty", "DEAD") == {}
    assert listed(client, "stable") == {"g": "Stable"}


def test_a_group_in_which_somebody_is_only_expected_is_listed_and_described_alike(client: RawClient) -> None:
    """Before, the group was listed as Empty and described as Dead."""
    assert client.ask(11, 7, join_message()).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert listed(client) == {"g": "Empty"}
    (group,) = describe(client, "g")
    assert (group.group_state, list(group.members)) == ("Empty", [])


def test_while_a_group_rebalances_the_last_shares_are_shown(broker: ServingBroker, client: RawClient) -> None:
    joined = join(client)
    assert sync(client, joined, {joined.member_id: b"share"}).error_code == 0
    with broker.client() as other:
        other.send(11, 0, control.encode_request(11, 0, join_message()))
        (group,) = eventually(lambda: [one for one in describe(client, "g") if one.group_state == "PreparingRebalance"])
        assert [one.member_assignment for one in group.members] == [b"share", b""]


def test_authorized_operations_are_told_when_asked_for(client: RawClient) -> None:
    for asked, told in ((False, -(1 << 31)), (True, 328)):
        (group,) = client.ask(15, 5, {"groups": ["g"], "include_authorized_operations": asked}).groups
        assert group.authorized_operations == told


def test_groups_without_members_show_by_their_offsets_and_consumers_of_the_papers_kind_as_members(
    broker: ServingBroker, client: RawClient
) -> None:
    broker.offsets.offsets["left"] = {("clicks", 0): CommittedOffset(1)}
    broker.offsets.paper_members["paper"] = {"c1": PaperMember(topics=["clicks"], partitions={"clicks": [0, 1]})}
    left, paper, nothing = describe(client, "left", "paper", "nothing")
    assert (left.group_state, left.protocol_type, list(left.members)) == ("Empty", "consumer", [])
    assert (nothing.group_state, nothing.error_code) == ("Dead", 0)
    assert (paper.group_state, paper.protocol_data, paper.members[0].member_id) == ("Stable", "zookeeper", "c1")
    assert paper.members[0].member_assignment == assignment({"clicks": [0, 1]})
    assert listed(client) == {"left": "Empty", "paper": "Stable"}


def test_a_group_is_deleted_with_its_offsets_unless_it_has_members(broker: ServingBroker, client: RawClient) -> None:
    broker.offsets.offsets["left"] = {("clicks", 0): CommittedOffset(1)}
    broker.offsets.paper_members["paper"] = {"c1": PaperMember(topics=["clicks"])}
    join(client)
    names = ["left", "paper", "g", "nothing", ""]
    results = client.ask(42, 2, {"groups_names": names}).results
    assert {str(one.group_id): int(one.error_code) for one in results} == {
        "left": 0,
        "paper": ErrorCode.NON_EMPTY_GROUP,
        "g": ErrorCode.NON_EMPTY_GROUP,
        "nothing": ErrorCode.GROUP_ID_NOT_FOUND,
        "": ErrorCode.INVALID_GROUP_ID,
    }
    assert "left" not in broker.offsets.offsets


def delete_offsets(client: RawClient, topic: str, *partitions: int) -> tuple[int, dict[int, int]]:
    topics = [{"name": topic, "partitions": [{"partition_index": index} for index in partitions]}]
    answer = client.ask(47, 0, {"group_id": "g", "topics": topics})
    return int(answer.error_code), {
        one.partition_index: int(one.error_code) for topic in answer.topics for one in topic.partitions
    }


def test_single_offsets_are_deleted_but_not_those_that_members_read(broker: ServingBroker, client: RawClient) -> None:
    assert delete_offsets(client, "clicks", 0) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    broker.offsets.offsets["g"] = {("clicks", 0): CommittedOffset(1), ("gone", 0): CommittedOffset(2)}
    assert delete_offsets(client, "clicks", 1, 7) == (0, {1: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    joined = join(client)
    assert delete_offsets(client, "clicks", 0) == (0, {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert delete_offsets(client, "gone", 0) == (0, {0: 0})
    assert broker.offsets.offsets["g"] == {("clicks", 0): CommittedOffset(1)}
    client.ask(13, 0, {"group_id": "g", "member_id": joined.member_id})
    assert delete_offsets(client, "clicks", 0) == (0, {0: 0})
    join(client, protocol_type="connect")
    assert delete_offsets(client, "clicks", 0) == (ErrorCode.NON_EMPTY_GROUP, {})


def test_while_zookeeper_is_away_administrators_are_told_and_members_live_on(broker: ServingBroker, client: RawClient) -> None:
    joined = join(client)
    sync(client, joined)
    broker.offsets.is_away = True
    away = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.ask(16, 4, {"states_filter": []}).error_code == away
    assert [one.error_code for one in describe(client, "g", "other")] == [0, away]
    assert client.ask(42, 2, {"groups_names": ["other"]}).results[0].error_code == away
    assert delete_offsets(client, "other", 0)[0] == away
    assert commit(client, joined, 1) == away
    assert heartbeat(client, joined) == 0


def test_more_groups_than_one_request_is_answered_for_are_refused_by_name(client: RawClient) -> None:
    names = [str(number) for number in range(MOST_NAMED + 2)]
    refused = ErrorCode.INVALID_REQUEST
    assert [one.error_code for one in describe(client, *names)] == [0] * MOST_NAMED + [refused] * 2
    deleted = client.ask(42, 2, {"groups_names": names}).results
    assert [one.error_code for one in deleted] == [ErrorCode.GROUP_ID_NOT_FOUND] * MOST_NAMED + [refused] * 2


def test_offsets_of_topics_that_consumers_of_the_papers_kind_read_are_not_deleted_under_them(
    broker: ServingBroker, client: RawClient
) -> None:
    broker.offsets.paper_members["paper"] = {"c1": PaperMember(topics=["clicks"])}
    broker.offsets.offsets["paper"] = {("clicks", 0): CommittedOffset(5), ("other", 0): CommittedOffset(6)}
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("clicks", "other")]
    answer = client.ask(47, 0, {"group_id": "paper", "topics": topics})
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"clicks": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "other": ErrorCode.NONE}
    assert set(broker.offsets.offsets["paper"]) == {("clicks", 0)}


def test_a_request_for_very_many_coordinators_is_answered_for_as_many_as_others_can_wait_for(client: RawClient) -> None:
    keys = [f"g{number}" for number in range(MOST_NAMED + 5)]
    answer = client.ask(10, 4, {"key_type": 0, "coordinator_keys": keys})
    assert [one.key for one in answer.coordinators] == keys
    codes = [int(one.error_code) for one in answer.coordinators]
    assert codes == [0] * MOST_NAMED + [int(ErrorCode.INVALID_REQUEST)] * 5
